//! What a replica builds and serves through edits, failures, refreshes and expiry, told as histories.

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
