#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    taiga_fuzz::boosted_snapshot(data);
});
