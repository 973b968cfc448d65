//! Text in, items and faults out: what is read, what is refused, and that one costs no other.

use proptest::prelude::*;

use super::testing::{SPECIMENS, Specimens, now, without_fingerprints};
use super::*;

/// One line for each item and fault.
fn check(text: &str, want: Want, expected: &[&str]) {
    let loaded = Loaded::from_pem(text, want, "");
    let item = |item: &Item| match &item.material {
        Material::Certificate(certificate) => format!("{}: {}", item.origin, certificate.subject()),
        Material::PublicKey(key) => format!("{}: {:?}", item.origin, key.algorithm()),
    };
    let faults = loaded.faults.iter().map(|fault| format!("! {fault}"));
    let found: Vec<String> = loaded.items.iter().map(item).chain(faults).collect();
    assert_eq!(found, expected);
}

fn certificate(pem: &str) -> Certificate {
    let mut loaded = Loaded::from_pem(pem, Want::Certificates, "");
    loaded.items.pop().and_then(|item| item.material.into_certificate()).unwrap()
}

#[test]
fn certificates_are_read_block_by_block() {
    let both = format!("ca of today\n{}\r\nand another\n\n{}", SPECIMENS.ca, SPECIMENS.other_ca.replace('\n', "\r\n"));
    check(&both, Want::Certificates, &["block 1: CN=authority", "block 2: CN=other authority"]);
    let indented = format!("    {}", SPECIMENS.ca.replace('\n', "\n    "));
    check(&indented, Want::Certificates, &["block 1: CN=authority"]);
}

#[test]
fn a_bad_block_names_itself_and_hides_no_good_one() {
    let Specimens { ca, other_ca, key, private_key, .. } = &*SPECIMENS;
    let unended = ca.replace("-----END CERTIFICATE-----", "");
    let garbled = ca.replacen("MII", "!!!", 1);
    let not_der = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    let other_end = not_der.replace("END CERTIFICATE", "END PUBLIC KEY");
    let text = [&unended, &*garbled, not_der, &other_end, key, private_key, other_ca].map(str::to_owned).concat();
    check(
        &text,
        Want::Certificates,
        &[
            "block 7: CN=other authority",
            "! block 1 has no line \"-----END CERTIFICATE-----\"",
            "! block 2 is not base64 between its BEGIN and END lines",
            "! block 3 is no X.509 certificate in DER",
            "! block 4 begins as CERTIFICATE and ends as something else",
            "! block 5 is PUBLIC KEY, not a certificate",
            "! block 6 is PRIVATE KEY, not a certificate",
        ],
    );
}

#[test]
fn text_without_blocks_is_one_fault() {
    check("", Want::Certificates, &["! the text has no PEM block"]);
    check("hello", Want::Keys, &["! the text has no PEM block"]);
    check("-----BEGIN ", Want::Keys, &["! block 1 has no line \"-----END -----\""]);
}

#[test]
fn keys_are_read_in_each_of_their_forms() {
    let text = [
        &*SPECIMENS.key,
        include_str!("testdata/rsa-pkcs1.pem"),
        include_str!("testdata/rsa-spki.pem"),
        include_str!("testdata/p521.pem"),
        include_str!("testdata/p256-compressed.pem"),
        &SPECIMENS.key.replace("PUBLIC KEY", "EC PUBLIC KEY"),
        include_str!("testdata/secp256k1.pem"),
        &include_str!("testdata/rsa-spki.pem").replace("PUBLIC KEY", "RSA PUBLIC KEY"),
        "-----BEGIN RSA PUBLIC KEY-----\naGVsbG8=\n-----END RSA PUBLIC KEY-----\n",
        &SPECIMENS.ca,
    ];
    check(
        &text.concat(),
        Want::Keys,
        &[
            "block 1: EcdsaP256",
            "block 2: Rsa { bits: 2048 }",
            "block 3: Rsa { bits: 2048 }",
            "block 4: EcdsaP521",
            "block 5: EcdsaP256",
            "block 6: EcdsaP256",
            "block 8: Rsa { bits: 2048 }",
            "! block 7 is a public key of an unknown algorithm, known are RSA, ECDSA (P-256, P-384, P-521) and Ed25519",
            "! block 9 is no public key in DER",
            "! block 10 is CERTIFICATE, not a public key",
        ],
    );
}

#[test]
fn the_same_key_in_two_forms_is_the_same_key() {
    let keys = [include_str!("testdata/rsa-pkcs1.pem"), include_str!("testdata/rsa-spki.pem")].concat();
    let loaded = Loaded::from_pem(&keys, Want::Keys, "");
    assert_eq!(loaded.items[0].material, loaded.items[1].material);
}

#[test]
fn an_anchor_is_an_authority_or_signed_by_itself() {
    let Specimens { ca, leaf, self_signed, .. } = &*SPECIMENS;
    let mut loaded = Loaded::from_pem(&[&**ca, leaf, self_signed].concat(), Want::Certificates, "");
    let faults = keep_anchors(&mut loaded);
    let kept: Vec<_> = loaded.items.iter().map(|item| &*item.origin).collect();
    assert_eq!(kept, ["block 1", "block 3"]);
    let faults: Vec<_> = faults.iter().map(|fault| without_fingerprints(&fault.to_string())).collect();
    let expected = "block 2 is \"CN=leaf\" (SHA256 …), neither a CA nor self-signed, and cannot be a trust anchor";
    assert_eq!(faults, [expected]);
}

#[test]
fn a_certificate_tells_its_dates() {
    let ca = certificate(&SPECIMENS.ca);
    assert_eq!(ca.not_before().to_string(), "2026-01-01T00:00:00Z");
    assert_eq!(ca.not_after().unwrap().to_string(), "2027-01-01T00:00:00Z");
    assert_eq!(ca.issuer(), "CN=authority");
    for (pem, validity) in [
        (&SPECIMENS.ca, Validity::Valid),
        (&SPECIMENS.expired_ca, Validity::Expired),
        (&SPECIMENS.early_ca, Validity::NotYet),
        (&SPECIMENS.endless_ca, Validity::Valid),
    ] {
        assert_eq!(certificate(pem).validity(now()), validity);
    }
    assert_eq!(ca.validity(ca.not_before()), Validity::Valid);
    assert_eq!(ca.validity(ca.not_after().unwrap()), Validity::Valid);
    assert_eq!(certificate(&SPECIMENS.endless_ca).not_after(), None);
}

#[test]
fn items_are_bounded() {
    let text = SPECIMENS.key.repeat(ITEMS_MAX + 10);
    let loaded = Loaded::from_pem(&text, Want::Keys, "");
    assert_eq!(loaded.items.len(), ITEMS_MAX);
    let faults: Vec<_> = loaded.faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults, ["block 513 and everything after it is not read: there are more than 512 items"]);
}

#[test]
fn a_provider_is_known_by_its_name_in_the_spec() {
    for kind in ProviderKind::ALL {
        assert_eq!(kind.as_str().parse(), Ok(kind));
    }
    assert_eq!("Inline".parse::<ProviderKind>(), Err(UnknownProvider));
}

proptest! {
    #[test]
    fn no_text_makes_reading_panic(text in "(-----(BEGIN|END) (CERTIFICATE|PUBLIC KEY)?-----\n?|[A-Za-z0-9+/=]{0,8}|\\PC{0,4}|\n){0,24}") {
        for want in [Want::Certificates, Want::Keys] {
            let loaded = Loaded::from_pem(&text, want, "");
            prop_assert!(loaded.items.len() + loaded.faults.len() > 0);
        }
    }

    #[test]
    fn no_damage_makes_parsing_panic(at in 0_usize..600, byte in any::<u8>(), cut in 0_usize..600) {
        let mut der = certificate(&SPECIMENS.ca).der().to_vec();
        let at = at % der.len();
        der[at] = byte;
        der.truncate(der.len() - cut % der.len());
        if let Ok(certificate) = Certificate::from_der(&der) {
            prop_assert!(!certificate.label().contains('\n'));
        }
        let _ = PublicKey::from_spki(&der);
        let _ = PublicKey::from_pkcs1(&der);
    }
}
