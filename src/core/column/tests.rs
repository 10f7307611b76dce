use super::*;

#[test]
fn chunks_nulls_and_types_read_as_one_column_of_f64() {
    let a = [1.5f32, f32::NAN, 3.0];
    let b = [7.0f32, 8.0];
    let validity = [0b10u8];
    let col = Column::new(
        "x",
        FeatureType::Numeric,
        vec![
            Chunk::new(Values::F32(&a), None),
            Chunk::new(Values::F32(&[]), None),
            Chunk::new(Values::F32(&b), Some(Bits::new(&validity, 0, 2))),
        ],
    );
    let all = col.to_f64();
    assert_eq!(col.len(), 5);
    assert!(all[1].is_nan() && all[3].is_nan());
    assert_eq!((all[0], all[2], all[4]), (1.5, 3.0, 8.0));
    assert_eq!(col.gather_f64(&[0, 2, 4]), vec![1.5, 3.0, 8.0]);
    assert_eq!(col.gather_f64(&[4, 0, 2]), vec![8.0, 1.5, 3.0], "in any order");
    assert!(col.gather_f64(&[3])[0].is_nan());
    let mut scratch = vec![];
    assert_eq!(col.read_f32(2, 3, &mut scratch)[2], 8.0);
    assert_eq!(col.read_f32(0, 1, &mut scratch), &[1.5]);
    let d = Column::new("d", FeatureType::Numeric, vec![Chunk::new(Values::Decimal(&[125, -5], 2), None)]);
    assert_eq!(d.to_f64(), vec![1.25, -0.05]);
    let bits = [0b1010u8];
    let b = Column::new("b", FeatureType::Numeric, vec![Chunk::new(Values::Bool(Bits::new(&bits, 1, 3)), None)]);
    assert_eq!(b.to_f64(), vec![1.0, 0.0, 1.0]);
}

#[test]
fn words_of_bits_are_their_bits() {
    let bytes: Vec<u8> = (0..40u32).map(|i| (i * 97 + 31) as u8).collect();
    for (offset, len) in [(0, 320), (3, 317), (5, 64), (7, 65), (250, 70), (313, 7), (319, 1)] {
        let bits = Bits::new(&bytes, offset, len);
        for i in 0..len {
            let naive = (i..len.min(i + 64)).fold(0u64, |word, k| word | (bits.get(k) as u64) << (k - i));
            assert_eq!(bits.word(i), naive, "{offset} {len} {i}");
        }
    }
}

#[test]
fn long_runs_of_nulls_read_as_nan() {
    let values: Vec<f64> = (0..200).map(f64::from).collect();
    let single: Vec<f32> = values.iter().map(|&x| x as f32).collect();
    let validity: Vec<u8> = (0..26u32).map(|i| if i % 9 < 8 { 255 } else { 0b0101_1010 }).collect();
    let bits = Bits::new(&validity, 5, 200);
    let (wide, narrow) = (Values::F64(&values), Values::F32(&single));
    let [wide, narrow] = [wide, narrow].map(|v| Column::new("x", FeatureType::Numeric, vec![Chunk::new(v, Some(bits))]));
    let (mut a, mut b) = (vec![], vec![]);
    let (got, got32) = (wide.borrow_f64(3, 190, &mut a), narrow.read_f32(3, 190, &mut b));
    for i in 0..190 {
        let expected = if bits.get(i + 3) { values[i + 3] } else { f64::NAN };
        assert!(got[i] == expected || got[i].is_nan() && expected.is_nan());
        assert_eq!(got[i].to_bits(), (got32[i] as f64).to_bits());
    }
    assert_eq!((wide.width(), narrow.width()), (Width::Double, Width::Single));
}
