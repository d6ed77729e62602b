//! The tokenizer of GGUF files whose `tokenizer.ggml.model` is `llama`: SentencePiece's pairs, joined by score. Candle has none for
//! them, so it is put together here from the parts of the `tokenizers` crate.

use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{Error, Result};
use tokenizers::decoders::{byte_fallback::ByteFallback, fuse::Fuse, sequence::Sequence, strip::Strip};
use tokenizers::models::bpe::{Vocab, BPE};
use tokenizers::normalizers::{Prepend, Replace, Sequence as Normalizers};
use tokenizers::{AddedToken, Tokenizer};

/// What SentencePiece writes for a space.
const SPACE: &str = "\u{2581}";
// Kinds of tokens, as GGUF numbers them.
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// Reads the tokenizer.
pub fn tokenizer(content: &Content) -> Result<Tokenizer> {
    let array = |key: &str| match content.metadata.get(key) {
        Some(Value::Array(values)) => Ok(values),
        _ => Err(Error::msg(format!("{key} is missing or no list"))),
    };
    let words: Vec<String> =
        array("tokenizer.ggml.tokens")?.iter().map(|word| word.to_string().cloned()).collect::<Result<_>>()?;
    let scores: Vec<f32> = array("tokenizer.ggml.scores")?.iter().map(Value::to_f32).collect::<Result<_>>()?;
    let kinds: Vec<i64> = array("tokenizer.ggml.token_type")?.iter().map(whole).collect::<Result<_>>()?;
    if words.len() != scores.len() || words.len() != kinds.len() {
        candle_core::bail!("it has {} tokens, {} scores and {} kinds", words.len(), scores.len(), kinds.len());
    }
    let is_spaced =
        content.metadata.get("tokenizer.ggml.add_space_prefix").is_none_or(|add| add.to_bool().unwrap_or(true));
    build(&words, &scores, &kinds, is_spaced).map_err(Error::wrap)
}

fn build(words: &[String], scores: &[f32], kinds: &[i64], is_spaced: bool) -> tokenizers::Result<Tokenizer> {
    let vocabulary: Vocab = words.iter().zip(0..).map(|(word, id)| (word.clone(), id)).collect();
    let mut model =
        BPE::builder().vocab_and_merges(vocabulary, merges(words, scores)).byte_fallback(true).fuse_unk(true);
    if let Some(unknown) = kinds.iter().position(|kind| *kind == UNKNOWN) {
        model = model.unk_token(words[unknown].clone());
    }
    let mut tokenizer = Tokenizer::new(model.build()?);
    let spaces = Replace::new(" ", SPACE)?.into();
    let normalizers = if is_spaced { vec![Prepend::new(SPACE.to_owned()).into(), spaces] } else { vec![spaces] };
    tokenizer.with_normalizer(Some(Normalizers::new(normalizers)))?;
    let mut decoders = vec![Replace::new(SPACE, " ")?.into(), ByteFallback::default().into(), Fuse::default().into()];
    if is_spaced {
        decoders.push(Strip::new(' ', 1, 0).into());
    }
    tokenizer.with_decoder(Some(Sequence::new(decoders)));
    let of_kind = |wanted: i64, is_special: bool| -> Vec<AddedToken> {
        let chosen = words.iter().zip(kinds).filter(move |(_, kind)| **kind == wanted);
        chosen.map(|(word, _)| AddedToken::from(word.clone(), is_special).normalized(false)).collect()
    };
    tokenizer.add_special_tokens(of_kind(CONTROL, true))?;
    tokenizer.add_tokens(of_kind(USER_DEFINED, false))?;
    Ok(tokenizer)
}

/// Every way to put a token together from two others, the highest score first: the order in which SentencePiece joins.
fn merges(words: &[String], scores: &[f32]) -> Vec<(String, String)> {
    let ids: std::collections::HashMap<&str, usize> =
        words.iter().enumerate().map(|(id, word)| (word.as_str(), id)).collect();
    let mut found = Vec::new();
    for (word, score) in words.iter().zip(scores) {
        for (cut, _) in word.char_indices().skip(1) {
            let (left, right) = word.split_at(cut);
            if let (Some(left), Some(right)) = (ids.get(left), ids.get(right)) {
                found.push((*score, *left, *right));
            }
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    found.into_iter().map(|(_, left, right)| (words[left].clone(), words[right].clone())).collect()
}

fn whole(value: &Value) -> Result<i64> {
    match value {
        Value::I32(number) => Ok((*number).into()),
        Value::U32(number) => Ok((*number).into()),
        other => other.to_i64().or_else(|_| other.to_u64().map(|number| number as i64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(is_spaced: bool) -> Tokenizer {
        // Scores are those of SentencePiece: the longer and rarer, the lower.
        let mut table = vec![("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)];
        table.extend([("<0xC3>", 0.0, 6), ("<0xA9>", 0.0, 6)]);
        table.extend([
            ("he", -1.0, 1),
            ("ll", -2.0, 1),
            ("llo", -3.0, 1),
            ("hello", -4.0, 1),
            ("\u{2581}hello", -5.0, 1),
        ]);
        table.extend(["\u{2581}", "h", "e", "l", "o"].map(|letter| (letter, -10.0, 1)));
        let words: Vec<String> = table.iter().map(|(word, ..)| (*word).to_owned()).collect();
        let scores: Vec<f32> = table.iter().map(|(_, score, _)| *score).collect();
        let kinds: Vec<i64> = table.iter().map(|(.., kind)| *kind).collect();
        build(&words, &scores, &kinds, is_spaced).expect("a tokenizer")
    }

    fn ids(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
        tokenizer.encode(text, false).expect("tokens").get_ids().to_vec()
    }

    #[test]
    fn pairs_join_by_score_and_a_text_starts_with_a_space() {
        let tokenizer = small(true);
        assert_eq!(ids(&tokenizer, "hello hello"), [9, 9]);
        assert_eq!(ids(&tokenizer, "hell"), [10, 5, 6]);
        assert_eq!(tokenizer.decode(&[9, 9], true).expect("text"), "hello hello");
        assert_eq!(ids(&small(false), "hello hello"), [8, 9]);
    }

    #[test]
    fn what_has_no_token_becomes_bytes_and_control_tokens_stay_whole() {
        let tokenizer = small(false);
        assert_eq!(ids(&tokenizer, "<s>\u{e9}"), [1, 3, 4]);
        assert_eq!(tokenizer.decode(&[1, 3, 4], true).expect("text"), "\u{e9}");
    }
}
