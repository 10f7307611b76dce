//! Models of CatBoost in its own binary format, cbm: four letters, a length, and a FlatBuffer with the fields that the JSON has; behind it the
//! tables of statistics, where there are some: their number, and of each its length and a FlatBuffer of its own.
//!
//! A FlatBuffer is read where it lies: a table is an offset to its fields, whose places its virtual table tells, and a vector is a
//! length and its elements. Every offset and length comes from the file, so each is checked against the bytes that there are; and since
//! many offsets may lead to the same bytes, so is how much is read in all.

use super::statistics::{CtrIn, Element, Table as Counts, Tables};
use super::{Bias, CatFeature, FeaturesInfo, File, FloatFeature, Hashed, ModelInfo, NodeIn, SplitIn, SymmetricIn, wrong};
use crate::error::Result;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::collections::HashMap;

/// The name that CatBoost has for the part of a file that its tables of statistics are.
const STATISTICS: &str = "static_provider_v1";

/// The name that CatBoost has for its format, as it spells it.
const FORMAT: &str = "FlabuffersModel_v1";

/// The deepest tree that is read; CatBoost grows none deeper than 16.
const DEEPEST: usize = 64;

/// How many times as many bytes as a file has are read of it, at most: columns may share a text.
const SHARED: usize = 8;

/// Reads the file after its four letters.
pub(super) fn read(bytes: &[u8]) -> Result<File> {
    let mut left = bytes;
    let size = u32::from_le_bytes(take(&mut left)?);
    let buffer = part(&mut left, size as usize)?;
    let unread = Cell::new(SHARED * buffer.len());
    let core = Table::root(buffer, &unread)?;
    let format = core.text(0)?.unwrap_or_default();
    if format != FORMAT {
        return Err(wrong(format!("the cbm file is of the format {format:?}, not {FORMAT:?}")));
    }
    let trees = core.table(1)?.ok_or_else(|| wrong("the cbm file has no trees"))?;
    if trees.length(12, 4)? + trees.length(13, 4)? + trees.length(18, 4)? > 0 {
        return Err(wrong("it has features of text or embeddings, which a model here can't"));
    }
    let (features_info, bins) = features(&trees)?;
    let parts = core.texts(3)?;
    if let Some(other) = parts.iter().find(|part| **part != STATISTICS) {
        return Err(wrong(format!("the cbm file has a part {other:?}, which is not read")));
    }
    let ctr_data = if parts.is_empty() { Tables::new() } else { tables(left)? };
    let width = trees.i32(0, 0)?;
    let width = usize::try_from(width).ok().filter(|w| *w > 0).ok_or_else(|| wrong(format!("it has {width} outputs")))?;
    let several = trees.numbers(16, f64::from_le_bytes)?;
    // Each output has a value in each leaf, or one that all trees are added to: a number alone says not how much memory is taken.
    if width > trees.length(8, 8)?.max(several.len()).max(1 << 16) {
        return Err(wrong(format!("it has {width} outputs, and fewer values")));
    }
    let bias = if several.is_empty() { vec![trees.f64(15, 0.0)?; width] } else { several };
    let (oblivious_trees, branching) = if trees.length(10, 4)? == 0 {
        (Some(symmetric(&trees, &bins, width)?), None)
    } else {
        (None, Some(branching(&trees, &bins, width)?))
    };
    Ok(File {
        features_info,
        oblivious_trees,
        trees: branching,
        scale_and_bias: Some((trees.f64(14, 1.0)?, Bias::Several(bias))),
        ctr_data,
        model_info: Some(model_info(&core)?),
    })
}

/// The first bytes of those that are left.
fn take<const N: usize>(left: &mut &[u8]) -> Result<[u8; N]> {
    let (first, rest) = left.split_first_chunk::<N>().ok_or_else(|| damaged("it is cut"))?;
    *left = rest;
    Ok(*first)
}

/// As many of those that are left.
fn part<'a>(left: &mut &'a [u8], size: usize) -> Result<&'a [u8]> {
    let (first, rest) = left.split_at_checked(size).ok_or_else(|| damaged("it is cut"))?;
    *left = rest;
    Ok(first)
}

/// A length: of four bytes, or of eight behind four of which all bits are set.
fn length(left: &mut &[u8]) -> Result<usize> {
    let short = u32::from_le_bytes(take(left)?);
    let length = if short == u32::MAX { u64::from_le_bytes(take(left)?) } else { u64::from(short) };
    usize::try_from(length).map_err(|_| damaged("a length"))
}

/// Bytes of a place of a table's index: a hash of 64 bits, and the number of its counts of 32.
const PLACE: usize = 12;

/// The tables of statistics.
fn tables(mut left: &[u8]) -> Result<Tables> {
    let mut out = Tables::new();
    for _ in 0..length(&mut left)? {
        let size = length(&mut left)?;
        let buffer = part(&mut left, size)?;
        let unread = Cell::new(SHARED * buffer.len());
        let table = Table::root(buffer, &unread)?;
        let base = table.table(0)?.ok_or_else(|| damaged("a table of statistics is of nothing"))?;
        let kind = base.u8(1)?;
        let (index, counts) = (table.bytes(1)?, table.bytes(2)?);
        let integer = |bytes: &[u8]| bytes.first_chunk().map_or(0.0, |b| f64::from(i32::from_le_bytes(*b)));
        let float = |bytes: &[u8]| bytes.first_chunk().map_or(0.0, |b| f64::from(f32::from_le_bytes(*b)));
        let is_mean = MEANS.contains(&name_of(kind)?);
        let width = match name_of(kind)? {
            _ if is_mean => 2,
            "Counter" | "FeatureFreq" => 1,
            // Two classes at the least.
            _ => usize::try_from(table.i32(4, 0)?).map_err(|_| damaged("a number of classes"))?.max(2),
        };
        // A mean is a sum and a count.
        let numbers = counts.chunks_exact(4).enumerate().map(|(i, b)| if is_mean && i % 2 == 0 { float(b) } else { integer(b) });
        let numbers: Vec<f64> = numbers.collect();
        let (places, rest) = index.as_chunks::<PLACE>();
        let mut keyed = Vec::with_capacity(places.len());
        for place in places {
            let (hash, number) = place.split_at(8);
            let hash = hash.first_chunk().map_or(u64::MAX, |b| u64::from_le_bytes(*b));
            let number = number.first_chunk().map_or(0, |b| u32::from_le_bytes(*b) as usize);
            if hash != u64::MAX {
                let own = number.checked_mul(width).and_then(|at| numbers.get(at..at.checked_add(width)?));
                keyed.push((hash, own.ok_or_else(|| damaged("a combination has no counts"))?));
            }
        }
        // Each has counts of its own, so that these are no more than the file has.
        if !rest.is_empty() || keyed.len() * width > numbers.len() {
            return Err(damaged("the index of a table of statistics"));
        }
        out.insert(identifier(&base)?, Counts::new(keyed.into_iter(), width, i64::from(table.i32(3, 0)?)));
    }
    Ok(out)
}

/// The kinds of statistics that are means of numbers.
const MEANS: [&str; 2] = ["BinarizedTargetMeanValue", "FloatTargetMeanValue"];

/// The name of a kind of statistics.
fn name_of(kind: u8) -> Result<&'static str> {
    let names = ["Borders", "Buckets", MEANS[0], MEANS[1], "Counter", "FeatureFreq"];
    names.get(kind as usize).copied().ok_or_else(|| damaged("a kind of statistics"))
}

/// The columns' categories, the splits of numbers and of single categories that a statistic is of.
type Combination = (Vec<i32>, Vec<(i32, u32)>, Vec<(i32, i32)>);

fn combination(base: &Table<'_>) -> Result<Combination> {
    let of = base.table(0)?.ok_or_else(|| damaged("a statistic is of nothing"))?;
    let pair = |b: [u8; 8]| {
        let [a0, a1, a2, a3, b0, b1, b2, b3] = b;
        (i32::from_le_bytes([a0, a1, a2, a3]), u32::from_le_bytes([b0, b1, b2, b3]))
    };
    let singles = of.numbers(2, pair)?.into_iter().map(|(column, value)| (column, value as i32)).collect();
    Ok((of.numbers(0, i32::from_le_bytes)?, of.numbers(1, pair)?, singles))
}

/// What tells apart the tables of statistics: the kind, the combination, and which way of making classes of the target.
fn identifier(base: &Table<'_>) -> Result<String> {
    Ok(format!("{} {} {:?}", base.u8(1)?, base.i32(2, 0)?, combination(base)?))
}

/// A statistic, with its borders.
fn statistic(feature: &Table<'_>) -> Result<CtrIn> {
    let none = || damaged("a statistic is of nothing");
    let ctr = feature.table(0)?.ok_or_else(none)?;
    let base = ctr.table(0)?.ok_or_else(none)?;
    let (categories, above, singles) = combination(&base)?;
    let place = |column: i32| usize::try_from(column).map_err(|_| damaged("a column's number"));
    let mut elements = vec![];
    for column in categories {
        elements.push(Element::Category { cat_feature_index: place(column)? });
    }
    for (column, border) in above {
        elements.push(Element::Above { float_feature_index: place(column)?, border: f32::from_bits(border) });
    }
    for (column, value) in singles {
        elements.push(Element::Is { cat_feature_index: place(column)?, value: i64::from(value) });
    }
    Ok(CtrIn {
        ctr_type: name_of(base.u8(1)?)?.into(),
        identifier: identifier(&base)?,
        elements,
        borders: feature.numbers(1, f32::from_le_bytes)?,
        prior_numerator: ctr.f32(2, 0.0)?,
        prior_denomerator: ctr.f32(3, 1.0)?,
        scale: ctr.f32(5, 1.0)?,
        shift: ctr.f32(4, 0.0)?,
        target_border_idx: place(ctr.i32(1, 0)?)?,
    })
}

fn damaged(what: &str) -> crate::Error {
    wrong(format!("the cbm file is damaged: {what}"))
}

/// What the file notes about how the model was made, each value a text, some of JSON.
fn model_info(core: &Table<'_>) -> Result<ModelInfo> {
    let mut info = ModelInfo::default();
    fn parsed<T: DeserializeOwned>(key: &str, text: &str) -> Result<Option<T>> {
        serde_json::from_str(text).map(Some).map_err(|e| wrong(format!("its {key:?} can't be read: {e}")))
    }
    for pair in core.tables(2)? {
        let value = pair.text(1)?.unwrap_or_default();
        match pair.text(0)? {
            Some(key @ "class_params") => info.class_params = parsed(key, value)?,
            Some(key @ "params") => info.params = parsed(key, value)?,
            Some("loss_function") => info.loss_function = Some(value.into()),
            Some("binclass_probability_threshold") => info.binclass_probability_threshold = Some(value.into()),
            _ => {}
        }
    }
    Ok(info)
}

/// The columns, and the splits that trees name by number: by each border of each column of numbers, then by each category that is asked by
/// itself, then by each border of each statistic.
fn features(trees: &Table<'_>) -> Result<(FeaturesInfo, Vec<SplitIn>)> {
    let place = |of: &Table<'_>, slot: usize| usize::try_from(of.i32(slot, -1)?).map_err(|_| damaged("a column's number"));
    let mut bins = vec![];
    let mut float_features = vec![];
    for (i, own) in trees.tables(5)?.iter().enumerate() {
        let borders = own.numbers(3, f32::from_le_bytes)?;
        bins.extend(borders.iter().map(|border| SplitIn {
            split_type: "FloatFeature".into(),
            border: Some(*border),
            float_feature_index: Some(i),
            cat_feature_index: None,
            value: None,
            split_index: 0,
        }));
        float_features.push(FloatFeature {
            feature_id: own.text(4)?.map(str::to_string),
            flat_feature_index: place(own, 2)?,
            borders,
            // 0 as it is, 1 as if below all borders, 2 above.
            nan_value_treatment: Some(if own.u8(5)? == 2 { "AsTrue" } else { "AsFalse" }.into()),
        });
    }
    let mut categorical_features = vec![];
    for own in trees.tables(4)? {
        let feature_id = own.text(2)?.map(str::to_string);
        categorical_features.push(CatFeature { feature_id, flat_feature_index: place(&own, 1)?, values: vec![] });
    }
    let mut cat_features_hash: Vec<Hashed> = vec![];
    let mut known = HashMap::new();
    for own in trees.tables(6)? {
        let (index, values, texts) = (place(&own, 0)?, own.numbers(1, i32::from_le_bytes)?, own.texts(2)?);
        let column = categorical_features.get_mut(index).ok_or_else(|| damaged("a split by a category is of no column"))?;
        column.values = values.iter().map(|v| i64::from(*v)).collect();
        for value in &values {
            bins.push(SplitIn {
                split_type: "OneHotFeature".into(),
                border: None,
                float_feature_index: None,
                cat_feature_index: Some(index),
                value: Some(i64::from(*value)),
                split_index: 0,
            });
        }
        for (value, text) in values.iter().zip(texts) {
            // A category may stand in several columns.
            if known.insert(*value, text) != Some(text) {
                cat_features_hash.push(Hashed { hash: i64::from(*value), value: text.to_string() });
            }
        }
    }
    let ctrs = trees.tables(7)?.iter().map(statistic).collect::<Result<Vec<_>>>()?;
    for border in ctrs.iter().flat_map(|ctr| &ctr.borders) {
        bins.push(SplitIn {
            split_type: "OnlineCtr".into(),
            border: Some(*border),
            float_feature_index: None,
            cat_feature_index: None,
            value: None,
            split_index: bins.len(),
        });
    }
    let (text_features, embedding_features) = (vec![], vec![]);
    let cat_features_hash = Some(cat_features_hash);
    Ok((FeaturesInfo { float_features, categorical_features, cat_features_hash, ctrs, text_features, embedding_features }, bins))
}

/// Of each tree where its splits begin, and how many there are.
fn sizes(trees: &Table<'_>) -> Result<Vec<(usize, usize)>> {
    let (mut at, mut out) = (0usize, vec![]);
    for size in trees.numbers(2, i32::from_le_bytes)? {
        let size = usize::try_from(size).map_err(|_| damaged("the size of a tree"))?;
        out.push((at, size));
        at = at.checked_add(size).ok_or_else(|| damaged("the sizes of trees"))?;
    }
    Ok(out)
}

/// The splits of nodes, in the order of the trees.
fn splits<'b>(trees: &Table<'_>, bins: &'b [SplitIn]) -> Result<Vec<Option<&'b SplitIn>>> {
    Ok(trees.numbers(1, i32::from_le_bytes)?.into_iter().map(|bin| bins.get(usize::try_from(bin).ok()?)).collect())
}

fn symmetric(trees: &Table<'_>, bins: &[SplitIn], width: usize) -> Result<Vec<SymmetricIn>> {
    let (splits, values, weights) = (splits(trees, bins)?, trees.numbers(8, f64::from_le_bytes)?, trees.numbers(9, f64::from_le_bytes)?);
    let (mut out, mut leaf) = (vec![], 0usize);
    for (at, size) in sizes(trees)? {
        let leaves = if size <= 16 { 1usize << size } else { return Err(wrong(format!("a tree has {size} levels"))) };
        let own = splits.get(at..at + size).ok_or_else(|| damaged("the splits of a tree"))?;
        let own = own.iter().map(|s| s.cloned()).collect::<Option<Vec<_>>>().ok_or_else(|| damaged("a split is none"))?;
        let part = |of: &[f64], by: usize| of.get(leaf * by..(leaf + leaves) * by).map(<[f64]>::to_vec);
        out.push(SymmetricIn {
            leaf_values: part(&values, width).ok_or_else(|| damaged("the values of a tree's leaves"))?,
            leaf_weights: if weights.is_empty() { vec![] } else { part(&weights, 1).ok_or_else(|| damaged("the weights of leaves"))? },
            splits: Some(own),
        });
        leaf += leaves;
    }
    Ok(out)
}

/// What nodes of branching trees are made of.
struct Nodes<'b> {
    splits: Vec<Option<&'b SplitIn>>,
    /// How many nodes further on the left and the right child are; 0 where that child is a leaf of the node's own values.
    steps: Vec<(u16, u16)>,
    /// Where the values of a node's leaf begin.
    leaves: Vec<u32>,
    values: Vec<f64>,
    weights: Vec<f64>,
    width: usize,
    /// How many of the values leaves may still take: each has its own.
    untaken: Cell<usize>,
}

fn branching(trees: &Table<'_>, bins: &[SplitIn], width: usize) -> Result<Vec<NodeIn>> {
    let values = trees.numbers(8, f64::from_le_bytes)?;
    let nodes = Nodes {
        splits: splits(trees, bins)?,
        steps: trees.numbers(10, |b: [u8; 4]| (u16::from_le_bytes([b[0], b[1]]), u16::from_le_bytes([b[2], b[3]])))?,
        leaves: trees.numbers(11, u32::from_le_bytes)?,
        untaken: Cell::new(values.len()),
        values,
        weights: trees.numbers(9, f64::from_le_bytes)?,
        width,
    };
    sizes(trees)?
        .into_iter()
        .map(|(at, size)| {
            // Every node has one parent, so that a tree is no larger than its part of the file.
            let mut left = size;
            nodes.node(at, 0, &mut left)
        })
        .collect()
}

impl Nodes<'_> {
    fn node(&self, at: usize, depth: usize, left: &mut usize) -> Result<NodeIn> {
        let step = self.steps.get(at).ok_or_else(|| damaged("a node is none"))?;
        *left = left.checked_sub(1).ok_or_else(|| damaged("a node has several parents"))?;
        if depth > DEEPEST {
            return Err(wrong(format!("a tree is deeper than {DEEPEST}")));
        }
        if *step == (0, 0) {
            return self.leaf(at);
        }
        let split = self.splits.get(at).copied().flatten().ok_or_else(|| damaged("a split is none"))?;
        let mut child = |by: u16| if by == 0 { self.leaf(at) } else { self.node(at + by as usize, depth + 1, left) }.map(Box::new);
        Ok(NodeIn { split: Some(split.clone()), left: Some(child(step.0)?), right: Some(child(step.1)?), value: None, weight: None })
    }

    fn leaf(&self, at: usize) -> Result<NodeIn> {
        let first = *self.leaves.get(at).ok_or_else(|| damaged("a leaf is none"))? as usize;
        let values =
            first.checked_add(self.width).and_then(|end| self.values.get(first..end)).ok_or_else(|| damaged("a leaf has no values"))?;
        let untaken = self.untaken.get().checked_sub(self.width).ok_or_else(|| damaged("leaves share their values"))?;
        self.untaken.set(untaken);
        let value = if let [one] = values { Bias::One(*one) } else { Bias::Several(values.to_vec()) };
        let weight = self.weights.get(first / self.width).copied();
        Ok(NodeIn { split: None, left: None, right: None, value: Some(value), weight })
    }
}

/// A table of a FlatBuffer, whose fields have numbers in the order of its schema.
struct Table<'a> {
    buffer: &'a [u8],
    at: usize,
    /// Of each field how far behind `at` it is, in two bytes; 0 where it has its default.
    fields: &'a [u8],
    /// How many bytes may still be read of the buffer.
    unread: &'a Cell<usize>,
}

impl<'a> Table<'a> {
    /// The first table of a buffer.
    fn root(buffer: &'a [u8], unread: &'a Cell<usize>) -> Result<Self> {
        Table { buffer, at: 0, fields: &[], unread }.behind(0)
    }

    /// The table that the offset at a place leads to.
    fn behind(&self, place: usize) -> Result<Self> {
        let buffer = self.buffer;
        let at = behind(buffer, place)?;
        // The virtual table lies where a signed number subtracted leads, and begins with its own length and that of the table.
        let back = i32::from_le_bytes(get(buffer, at)?);
        let virtual_table =
            (at as i64).checked_sub(i64::from(back)).and_then(|x| usize::try_from(x).ok()).ok_or_else(|| damaged("a table"))?;
        let size = u16::from_le_bytes(get(buffer, virtual_table)?) as usize;
        let fields = buffer.get(virtual_table..).and_then(|b| b.get(4..size)).ok_or_else(|| damaged("a virtual table"))?;
        Ok(Table { buffer, at, fields, unread: self.unread })
    }

    /// Where a field lies, if it does not have its default.
    fn place(&self, field: usize) -> Option<usize> {
        let by = self.fields.get(2 * field..2 * field + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]) as usize);
        (by > 0).then_some(self.at + by)
    }

    fn scalar<const N: usize, T>(&self, field: usize, default: T, read: impl Fn([u8; N]) -> T) -> Result<T> {
        self.place(field).map_or(Ok(default), |place| get(self.buffer, place).map(read))
    }

    fn i32(&self, field: usize, default: i32) -> Result<i32> {
        self.scalar(field, default, i32::from_le_bytes)
    }

    fn f64(&self, field: usize, default: f64) -> Result<f64> {
        self.scalar(field, default, f64::from_le_bytes)
    }

    fn f32(&self, field: usize, default: f32) -> Result<f32> {
        self.scalar(field, default, f32::from_le_bytes)
    }

    fn bytes(&self, field: usize) -> Result<&'a [u8]> {
        let (at, length) = self.vector(field, 1)?;
        Ok(&self.buffer[at..at + length])
    }

    fn u8(&self, field: usize) -> Result<u8> {
        self.scalar(field, 0, u8::from_le_bytes)
    }

    fn table(&self, field: usize) -> Result<Option<Table<'a>>> {
        self.place(field).map(|place| self.behind(place)).transpose()
    }

    /// Where the elements of a vector begin, and how many there are of so many bytes, all of them inside the buffer.
    fn vector(&self, field: usize, size: usize) -> Result<(usize, usize)> {
        let Some(place) = self.place(field) else { return Ok((0, 0)) };
        self.elements(place, size)
    }

    fn length(&self, field: usize, size: usize) -> Result<usize> {
        Ok(self.vector(field, size)?.1)
    }

    fn numbers<const N: usize, T>(&self, field: usize, read: impl Fn([u8; N]) -> T) -> Result<Vec<T>> {
        let (at, length) = self.vector(field, N)?;
        let (parts, _) = self.buffer[at..at + length * N].as_chunks::<N>();
        Ok(parts.iter().map(|part| read(*part)).collect())
    }

    fn tables(&self, field: usize) -> Result<Vec<Table<'a>>> {
        let (at, length) = self.vector(field, 4)?;
        (0..length).map(|i| self.behind(at + 4 * i)).collect()
    }

    fn text(&self, field: usize) -> Result<Option<&'a str>> {
        self.place(field).map(|place| self.text_at(place)).transpose()
    }

    fn texts(&self, field: usize) -> Result<Vec<&'a str>> {
        let (at, length) = self.vector(field, 4)?;
        (0..length).map(|i| self.text_at(at + 4 * i)).collect()
    }

    /// Where the elements begin of the vector that the offset at a place leads to, and how many there are.
    fn elements(&self, place: usize, size: usize) -> Result<(usize, usize)> {
        let at = behind(self.buffer, place)?;
        let length = u32::from_le_bytes(get(self.buffer, at)?) as usize;
        let bytes = length.checked_mul(size).filter(|bytes| *bytes <= self.buffer.len() - at - 4);
        let bytes = bytes.ok_or_else(|| damaged("a vector is longer than it"))?;
        self.unread.set(self.unread.get().checked_sub(bytes).ok_or_else(|| damaged("its vectors lie upon each other"))?);
        Ok((at + 4, length))
    }

    fn text_at(&self, place: usize) -> Result<&'a str> {
        let (at, length) = self.elements(place, 1)?;
        std::str::from_utf8(&self.buffer[at..at + length]).map_err(|_| damaged("a text is no UTF-8"))
    }
}

/// The bytes of a number.
fn get<const N: usize>(buffer: &[u8], at: usize) -> Result<[u8; N]> {
    buffer.get(at..).and_then(|b| b.first_chunk::<N>()).copied().ok_or_else(|| damaged("an offset leads out of it"))
}

/// Where the offset at a place leads.
fn behind(buffer: &[u8], place: usize) -> Result<usize> {
    Ok(place + u32::from_le_bytes(get(buffer, place)?) as usize)
}
