//! The fuzzer's targets over every input that was kept: `fuzz/corpus/<target>/`.

#[path = "../../../../fuzz/src/lib.rs"]
#[allow(dead_code, unexpected_cfgs)]
mod fuzz;

use std::path::Path;

/// Proves that no kept input panics, takes memory out of proportion, or reads what it does not write again; and that the seeds,
/// which are bytes of real models, are still accepted.
#[test]
fn kept_inputs_are_refused_or_harmless() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in fuzz::TARGETS {
        let entries = std::fs::read_dir(corpus.join(name)).unwrap_or_else(|e| panic!("the inputs of {name}: {e}"));
        let mut inputs: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        inputs.sort();
        let mut accepted = 0;
        for path in &inputs {
            let input = std::fs::read(path).unwrap();
            let caught = std::panic::catch_unwind(|| target(&input));
            let ok = caught.unwrap_or_else(|_| panic!("{} of {name}: see the panic above", path.display()));
            accepted += ok as usize;
            let is_seed = path.file_name().unwrap().to_string_lossy().starts_with("seed-") && !path.to_string_lossy().ends_with("others");
            assert!(ok || !is_seed, "{} of {name} is refused", path.display());
        }
        assert!(accepted >= 2, "{accepted} of the {} inputs of {name} are accepted", inputs.len());
    }
}

/// Models of every learner, policy and treatment of categories as they are fitted now.
#[test]
fn seeds_of_today_are_accepted() {
    for (name, seed, bytes) in fuzz::seeds::seeds() {
        let (_, target) = fuzz::TARGETS.into_iter().find(|t| t.0 == name).unwrap();
        assert!(target(&bytes) || seed.ends_with("others"), "{name}: {seed}");
    }
}
