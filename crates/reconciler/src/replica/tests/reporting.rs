//! What a replica reports, restores and deletes, and when it is ready, told as histories.

use super::script::check;

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
