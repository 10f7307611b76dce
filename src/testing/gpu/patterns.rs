//! Bit patterns: the edges, then random ones.

use taiga_engine::numerics::random::{Purpose, Random};

/// How far around an edge to look, in units of the last place.
const AROUND: i64 = 3;

pub fn random(stream: u64) -> Random {
    Random::new(20_251, Purpose::RowSample, stream)
}

/// `n` f32: zeros, infinities, NaNs, subnormals and all powers of two with their neighbours, the
/// points where exp and ln change their reduction, and then random bits, half of them moderate.
pub fn f32s(n: usize, stream: u64) -> Vec<f32> {
    let mut anchors: Vec<f32> = vec![0.0, f32::MAX, f32::INFINITY, f32::MIN_POSITIVE, 105.0, 90.0, 88.72284, 87.33655, 103.97208];
    anchors.extend((0..32).map(|bit| f32::from_bits(1 << bit)));
    for e in 0..=255u32 {
        anchors.push(f32::from_bits(e << 23));
        // ln splits a binade at the root of two.
        anchors.push(f32::from_bits((e << 23) | 0x0035_04f3));
    }
    // exp goes to the next multiple of ln 2 at the halves.
    anchors.extend((-320..=320).map(|k| (k as f64 * std::f64::consts::LN_2 / 2.0) as f32));
    let mut values = vec![f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xffbf_ffff)];
    for a in anchors {
        for d in -AROUND..=AROUND {
            let x = f32::from_bits((a.to_bits() as i64 + d) as u32);
            values.extend([x, -x]);
        }
    }
    let r = random(stream);
    values.extend((values.len()..n).map(|i| {
        let bits = r.u64(i as u64);
        match i % 4 {
            0 => 110.0 * centred(bits) as f32,
            1 => 1.0 + 0.5 * centred(bits) as f32,
            _ => f32::from_bits(bits as u32),
        }
    }));
    values.truncate(n);
    values
}

/// The same for f64.
pub fn f64s(n: usize, stream: u64) -> Vec<f64> {
    let mut anchors: Vec<f64> = vec![0.0, f64::MAX, f64::INFINITY, f64::MIN_POSITIVE, 750.0, 715.0, 709.782712893384, 745.1332191019412];
    anchors.extend((0..64).map(|bit| f64::from_bits(1 << bit)));
    for e in 0..=2047u64 {
        anchors.push(f64::from_bits(e << 52));
        anchors.push(f64::from_bits((e << 52) | 0x6_a09e_667f_3bcd));
        anchors.push(f64::from_bits((e << 52) | 0x6_a09e_0000_0000));
    }
    anchors.extend((-2200..=2200).map(|k| k as f64 * std::f64::consts::LN_2 / 2.0));
    let mut values = vec![f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001), f64::from_bits(0xfff7_ffff_ffff_ffff)];
    for a in anchors {
        for d in -AROUND..=AROUND {
            let x = f64::from_bits(a.to_bits().wrapping_add_signed(d));
            values.extend([x, -x]);
        }
    }
    let r = random(stream);
    values.extend((values.len()..n).map(|i| {
        let bits = r.u64(i as u64);
        match i % 4 {
            0 => 760.0 * centred(bits),
            1 => 1.0 + 0.5 * centred(bits),
            _ => f64::from_bits(bits),
        }
    }));
    values.truncate(n);
    values
}

/// In [-1, 1).
pub fn centred(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// `n` numbers in [low, high).
pub fn uniform(n: usize, stream: u64, low: f64, high: f64) -> Vec<f32> {
    let r = random(stream);
    (0..n as u64).map(|i| (low + (high - low) * r.unit(i)) as f32).collect()
}
