//! Executors that want the same scope, told as histories.

use super::script::check;

#[test]
fn the_older_executor_holds_a_scope_and_the_other_takes_over_when_it_is_dropped() {
    check(
        "
        sync
        see b 1
            b announce
            b fetch 1
        load b 1 [x]
            b load 1
        built b
            b serve 1 Wanted
            b report 1 ok Wanted Built
        wrote b
        see a 1
            a announce
            a fetch 1
        broken a 1 [x] spec.stores is empty
            a report 1 failed Nothing InvalidSpec: spec.stores is empty
            b withdraw
            b report 1 failed Nothing ScopeConflict: scope \"x\" belongs to executor a, created earlier
        wrote a
        wrote b
        see a 2
            a fetch 2
        load a 2 [y]
            a load 2
            b serve 1 Wanted
            b report 1 ok Wanted Built
        ",
    );
}

#[test]
fn a_blocked_executor_is_decided_again_when_the_holder_goes() {
    check(
        "
        sync
        see a 1
            a announce
            a fetch 1
        load a 1 [x]
            a load 1
        see b 1
            b announce
            b fetch 1
        load b 1 [x]
            b report 1 failed Nothing ScopeConflict: scope \"x\" belongs to executor a, created earlier
        wrote b
        +1m
        gone a
            a cancel
            a remove
            a drop
            b load 1
        ",
    );
}

#[test]
fn an_older_generation_gives_way_to_whoever_lists_its_scope_now() {
    check(
        "
        sync
        see a 1
            a announce
            a fetch 1
        load a 1 [x]
            a load 1
        built a
            a serve 1 Wanted
            a report 1 ok Wanted Built
        wrote a
        see a 2
            a serve 1 Older
            a fetch 2
        load a 2 [y]
            a load 2
        see b 1
            b announce
            b fetch 1
        load b 1 [x]
            a withdraw
            a report 2 failed Nothing Unreachable: no verdict on generation 2 within the edit grace; nothing serves until there is one
            b load 1
        ",
    );
}

#[test]
fn executors_of_different_namespaces_do_not_conflict() {
    check(
        "
        sync
        see a 1
            a announce
            a fetch 1
        load a 1 [x]
            a load 1
        see team/b 1
            team/b announce
            team/b fetch 1
        load team/b 1 [x]
            team/b load 1
        see other/c 1
            other/c announce
            other/c fetch 1
        load other/c 1 [x]
            other/c load 1
        ",
    );
}

#[test]
fn a_younger_executor_waits_for_the_specs_of_the_older_ones() {
    check(
        "
        see a 1
            a announce
            a fetch 1
        see b 1
            b announce
            b fetch 1
        sync
        load b 1 [x]
        load a 1 [y]
            a load 1
            b load 1
        ",
    );
}
