//! Models of CatBoost in its own binary format, cbm: four letters, a length, and a FlatBuffer with the fields that the JSON has.
//!
//! A FlatBuffer is read where it lies: a table is an offset to its fields, whose places its virtual table tells, and a vector is a
//! length and its elements. Every offset and length comes from the file, so each is checked against the bytes that there are; and since
//! many offsets may lead to the same bytes, so is how much is read in all.

use super::{
    Bias, CatFeature, ClassParams, FeaturesInfo, File, FloatFeature, Hashed, ModelInfo, NodeIn, Params, SplitIn, SymmetricIn, wrong,
};
use crate::error::Result;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::collections::HashMap;

/// The name that CatBoost has for its format, as it spells it.
const FORMAT: &str = "FlabuffersModel_v1";

/// The deepest tree that is read; CatBoost grows none deeper than 16.
const DEEPEST: usize = 64;

/// How many times as many bytes as a file has are read of it, at most: columns may share a text.
const SHARED: usize = 8;

/// Reads the file after its four letters.
pub(super) fn read(bytes: &[u8]) -> Result<File> {
    let size = bytes.first_chunk::<4>().map(|b| u32::from_le_bytes(*b) as usize);
    let buffer = size.and_then(|size| bytes.get(4..)?.get(..size)).ok_or_else(|| damaged("its length"))?;
    let unread = Cell::new(SHARED * buffer.len());
    let core = Table { buffer, at: 0, fields: &[], unread: &unread }.behind(0)?;
    let format = core.text(0)?.unwrap_or_default();
    if format != FORMAT {
        return Err(wrong(format!("the cbm file is of the format {format:?}, not {FORMAT:?}")));
    }
    let trees = core.table(1)?.ok_or_else(|| wrong("the cbm file has no trees"))?;
    if trees.length(12, 4)? + trees.length(13, 4)? + trees.length(18, 4)? > 0 {
        return Err(wrong("it has features of text or embeddings, which a model here can't"));
    }
    if trees.length(7, 4)? > 0 {
        return Err(wrong("its statistics of categories are not read of a cbm file: save the model with format=\"json\""));
    }
    let (features_info, bins) = features(&trees)?;
    let width = trees.i32(0, 0)?;
    let width = usize::try_from(width).ok().filter(|w| *w > 0).ok_or_else(|| wrong(format!("it has {width} outputs")))?;
    let several = trees.numbers(16, f64::from_le_bytes)?;
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
        ctr_data: Default::default(),
        model_info: Some(model_info(&core)?),
    })
}

fn damaged(what: &str) -> crate::Error {
    wrong(format!("the cbm file is damaged: {what}"))
}

/// What the file notes about how the model was made, each value a text, of which these are JSON.
fn model_info(core: &Table<'_>) -> Result<ModelInfo> {
    let (mut class_params, mut params) = (None::<ClassParams>, None::<Params>);
    fn parsed<T: DeserializeOwned>(key: &str, text: &str) -> Result<Option<T>> {
        serde_json::from_str(text).map(Some).map_err(|e| wrong(format!("its {key:?} can't be read: {e}")))
    }
    for pair in core.tables(2)? {
        let value = pair.text(1)?.unwrap_or_default();
        match pair.text(0)? {
            Some(key @ "class_params") => class_params = parsed(key, value)?,
            Some(key @ "params") => params = parsed(key, value)?,
            _ => {}
        }
    }
    Ok(ModelInfo { class_params, params })
}

/// The columns, and the splits that trees name by number: by each border of each column of numbers, then by each category that is asked by itself.
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
    let (ctrs, text_features, embedding_features) = (vec![], vec![], vec![]);
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
}

fn branching(trees: &Table<'_>, bins: &[SplitIn], width: usize) -> Result<Vec<NodeIn>> {
    let nodes = Nodes {
        splits: splits(trees, bins)?,
        steps: trees.numbers(10, |b: [u8; 4]| (u16::from_le_bytes([b[0], b[1]]), u16::from_le_bytes([b[2], b[3]])))?,
        leaves: trees.numbers(11, u32::from_le_bytes)?,
        values: trees.numbers(8, f64::from_le_bytes)?,
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
