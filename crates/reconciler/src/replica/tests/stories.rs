//! What a replica decides, told as histories.

use super::script::check;

#[test]
fn one_executor_is_read_built_served_and_reported_once() {
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
        see a 1
        sync
        +24h
        ",
    );
}

#[test]
fn nothing_is_written_before_the_own_objects_are_known() {
    check(
        "
        see a 1
            a announce
            a fetch 1
        load a 1 [x]
            a load 1
        built a
            a serve 1 Wanted
        sync
            a report 1 ok Wanted Built
        wrote a
        ",
    );
}

#[test]
fn c67_a_spec_that_can_never_be_built_is_reported_once_and_tried_again_only_when_it_changes() {
    check(
        "
        sync
        see a 1
            a announce
            a fetch 1
        broken a 1 [x] spec.stores is empty
            a report 1 failed Nothing InvalidSpec: spec.stores is empty
        wrote a
        +24h
        changed a
        see a 2
            a fetch 2
        load a 2 [x]
            a load 2
        built a
            a serve 2 Wanted
            a report 2 ok Wanted Built
        wrote a
        ",
    );
}

#[test]
fn an_edit_that_fails_for_now_leaves_the_older_generation_serving_for_the_grace() {
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
        load a 2 [x]
            a load 2
        +119s
        failed a Unreachable vault does not answer
            a report 2 failed Older Unreachable: vault does not answer
        wrote a
        +1s
            a withdraw
            a report 2 failed Nothing Unreachable: vault does not answer
        wrote a
        +10s
            a load 2
        built a
            a serve 2 Wanted
            a report 2 ok Wanted Built
        wrote a
        ",
    );
}

#[test]
fn the_grace_is_not_prolonged_by_further_edits() {
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
        unread a
        +100s
            a fetch 2
        see a 3
        unread a
        +20s
            a fetch 3
            a withdraw
            a report 3 failed Nothing Unreachable: no verdict on generation 3 within the edit grace; nothing serves until there is one
        ",
    );
}

#[test]
fn a_wrong_edit_serves_nothing_at_once_and_what_it_took_away_does_not_come_back() {
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
        broken a 2 [x] spec.verifiers is empty
            a withdraw
            a report 2 failed Nothing InvalidSpec: spec.verifiers is empty
        wrote a
        see a 3
            a fetch 3
        load a 3 [x]
            a load 3
        failed a Unreachable vault does not answer
            a report 3 failed Nothing Unreachable: vault does not answer
        ",
    );
}

#[test]
fn an_edit_during_a_build_drops_the_build() {
    check(
        "
        sync
        see a 1
            a announce
            a fetch 1
        load a 1 [x]
            a load 1
        see a 2
            a cancel
            a fetch 2
        built a
        load a 2 [x]
            a load 2
        built a
            a serve 2 Wanted
            a report 2 ok Wanted Built
        ",
    );
}

#[test]
fn a_refresh_that_fails_keeps_the_last_good_material_until_it_expires() {
    check(
        "
        sync
        see a 1
            a announce
            a fetch 1
        load a 1 [x] refresh=1h
            a load 1
        built a until=3h
            a serve 1 Wanted
            a report 1 ok Wanted Built
        wrote a
        +1h
            a refresh 1
        failed a Unreachable vault does not answer
            a serve 1 LastGood
            a report 1 ok LastGood RefreshFailed: vault does not answer
        wrote a
        +10s
            a refresh 1
        failed a Unreachable vault does not answer
        +10s
            a refresh 1
        +2h
            a withdraw
            a report 1 failed Nothing TrustExpired: trust material has expired and was not renewed: vault does not answer
        wrote a
        failed a Unreachable vault does not answer
        changed a
        +20s
            a refresh 1
        built a until=72h
            a serve 1 Wanted
            a report 1 ok Wanted Built
        ",
    );
}

#[test]
fn a_certificate_that_expires_is_noticed_without_a_refresh() {
    check(
        "
        sync
        see a 1
            a announce
            a fetch 1
        load a 1 [x]
            a load 1
        built a first=1h until=2h
            a serve 1 Wanted
            a report 1 ok Wanted Built
        wrote a
        +1h
            a refresh 1
        built a until=1h warn=expired
            a report 1 ok Wanted Built
        wrote a
        +1h
            a withdraw
            a refresh 1
            a report 1 failed Nothing TrustExpired: trust material has expired and is being fetched again
        failed a TrustExpired every certificate has expired
        wrote a
            a report 1 failed Nothing TrustExpired: trust material has expired and was not renewed: every certificate has expired
        ",
    );
}

#[test]
fn waiting_at_a_gate_is_a_verdict_unless_the_wanted_generation_serves() {
    check(
        "
        sync
        see a 1
            a announce
            a fetch 1
        load a 1 [x] refresh=1h
            a load 1
        parked a the vault asks to slow down
            a report 1 failed Nothing RateLimited: the vault asks to slow down
        wrote a
        parked a the vault asks to slow down
        +10m
        built a
            a serve 1 Wanted
            a report 1 ok Wanted Built
        wrote a
        +1h
            a refresh 1
        parked a the vault asks to slow down
        +10m
        ",
    );
}

#[test]
fn c21_a_changed_secret_acts_at_once_also_where_the_last_attempt_failed_or_still_waits() {
    check(
        "
        sync
        see a 1
            a announce
            a fetch 1
        load a 1 [x] refresh=1h
            a load 1
        parked a the vault asks to slow down
            a report 1 failed Nothing RateLimited: the vault asks to slow down
        wrote a
        secret a
            a cancel
            a load 1
        failed a TokenUnreadable the token cannot be read
            a report 1 failed Nothing TokenUnreadable: the token cannot be read
        wrote a
        secret a
            a load 1
        built a
            a serve 1 Wanted
            a report 1 ok Wanted Built
        wrote a
        secret a
            a refresh 1
        built a
        +10m
        ",
    );
}

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

#[test]
fn c05_a_recreated_executor_is_another_one_and_what_is_left_of_the_old_one_is_deleted() {
    check(
        "
        sync
        see a~1 1
            a announce
            a fetch 1
        load a~1 1 [x]
            a load 1
        built a~1
            a serve 1 Wanted
            a report 1 ok Wanted Built
        gone a~1
            a remove
        see a~2 1
            a announce
            a fetch 1
        wrote a~1
            a delete own-a
        load a~2 1 [x]
            a load 1
        unwritten a~1
        built a~2
            a serve 1 Wanted
            a report 1 ok Wanted Built
        wrote a~2
        +5s
            a delete own-a
        wrote a~1
            a drop
        ",
    );
}

#[test]
fn an_own_object_about_an_executor_that_went_while_the_replica_was_away_is_deleted() {
    check(
        "
        orphan a
        sync
            a delete own-a
        wrote a
            a drop
        orphan b
            b delete own-b
        ",
    );
}

#[test]
fn c03_an_own_object_that_is_removed_again_and_again_is_restored_with_growing_pauses() {
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
        altered a
            a report 1 ok Wanted Built
        wrote a
        lost a
        +2s
        +3s
            a report 1 ok Wanted Built
        wrote a
        lost a
        +4s
        +6s
            a report 1 ok Wanted Built
        wrote a
        +10m
        lost a
            a report 1 ok Wanted Built
        ",
    );
}

#[test]
fn a_failed_write_is_sent_again_and_a_refused_one_only_when_something_changed() {
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
        unwritten a
        +5s
            a report 1 ok Wanted Built
        unwritten a
        +10s
            a report 1 ok Wanted Built
        refused a
        +24h
        sync
            a report 1 ok Wanted Built
        refused a
        see a 2
            a serve 1 Older
            a fetch 2
        load a 2 [x]
            a load 2
        built a
            a serve 2 Wanted
            a report 2 ok Wanted Built
        wrote a
        ",
    );
}

#[test]
fn the_first_verdict_of_all_that_was_there_at_start_makes_ready() {
    check(
        "
        see a 1
            a announce
            a fetch 1
        see b 1
            b announce
            b fetch 1
        ready
            not in sync yet: executors, namespacedexecutors, executorpodstatuses
        sync
        see c 1
            c announce
            c fetch 1
        ready
            2 executors that were there at start have had no verdict yet
        load a 1 [x]
            a load 1
        built a
            a serve 1 Wanted
            a report 1 ok Wanted Built
        ready
            1 executor that was there at start has had no verdict yet
        load b 1 [y]
            b load 1
        parked b the vault asks to slow down
            b report 1 failed Nothing RateLimited: the vault asks to slow down
        ready
            ready
        see a 2
            a serve 1 Older
            a fetch 2
        ready
            ready
        ",
    );
}

#[test]
fn an_executor_without_a_verdict_is_reported_as_starting_and_holds_readiness_up_no_longer() {
    check(
        "
        orphan a
        see a 1
            a announce
            a fetch 1
        sync
        load a 1 [x]
            a load 1
        +89s
        ready
            1 executor that was there at start has had no verdict yet
        +1s
            a report 0 failed Nothing Starting: the replica started and has no verdict on this executor yet
        ready
            ready
        ",
    );
}

#[test]
fn after_a_restart_in_place_an_equal_verdict_is_not_written_again() {
    check(
        "
        orphan a
        see a 1
            a announce
            a fetch 1
        sync
        load a 1 [x]
            a load 1
        built a
            a serve 1 Wanted
            a adopt 1 ok Wanted Built
        ready
            ready
        ",
    );
}

#[test]
fn a_new_value_of_the_retry_annotation_forces_one_attempt() {
    check(
        "
        sync
        see a 1 retry=x
            a announce
            a fetch 1
        load a 1 [x]
            a load 1
        failed a AuthFailed the vault refuses the credential
            a report 1 failed Nothing AuthFailed: the vault refuses the credential
        wrote a
        see a 1 retry=x
        see a 1 retry=y
            a load 1
        failed a AuthFailed the vault refuses the credential
        see a 1
        see a 1 retry=y
            a load 1
        ",
    );
}

#[test]
fn a_stale_read_is_not_repeated_at_once() {
    check(
        "
        sync
        see a 2
            a announce
            a fetch 2
        load a 1 [x]
        +5s
            a fetch 2
        load a 3 [x]
            a load 3
        vanished a
            a cancel
            a remove
            a drop
        ",
    );
}
