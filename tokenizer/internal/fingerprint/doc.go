// Package fingerprint converts everything that determines a tokenizer's ids to a canonical form, independent of the
// kind of file, and hashes it. Two tokenizers with the same fingerprint give the same ids.
//
// # Fingerprint format
//
// python/src/loaderd/fingerprint.py computes the same fingerprint, "sha256:" and the hash.
//
// The hash covers one JSON object in ASCII, with sorted names and no white space, as written by Python's json.dumps(x,
// sort_keys=True, separators=(",", ":")). Characters outside printable ASCII are written as \uxxxx, those beyond U+FFFF
// as two of them. The exceptions are the short forms \b \t \n \f \r \" \\. The object has these fields:
//
//   - version: "loaderd tokenizer 3". It changes when the same tokenizer yields different ids. Documents tokenized
//     under an earlier version are then rejected until they are tokenized again. Version 3 changed the ids of texts in
//     which a mark that counts as a word character is next to a single_word added token.
//   - special_as_text: true or false.
//   - special_tokens: only with add_special_tokens, and only if the post_processor adds ids: [[ids before a text], [ids
//     after it]]. A rejected post_processor is included unchanged.
//   - added_tokens: [id, content, single_word, lstrip, rstrip, normalized, special] of each token, ordered by id,
//     without empty tokens and duplicates. The id is the one in the vocabulary. Other tokens are numbered in file
//     order, starting at the size of the vocabulary. A Tokenizer object already has its ids. Special tokens of a rank
//     file have only the flag special.
//   - normalizer, pre_tokenizer: lists, [] for null. A Sequence is replaced by its parts. Each part is the object in
//     the file without null fields. For these types, only the following fields are included, and only if they differ
//     from the default given here: ByteLevel (add_prefix_space true, use_regex true), Metaspace (replacement,
//     prepend_scheme "always", split true; an add_prefix_space of false without prepend_scheme is "never"), Split
//     (pattern, behavior, invert false), Digits (individual_digits false), Punctuation (behavior "Isolated"), Prepend
//     (prepend), Replace (pattern, content).
//   - A ByteLevel that uses its own pattern (GPT-2's) and adds no space is written as two parts. The first is a Split
//     by that pattern (Isolated). The second is a ByteLevel with add_prefix_space false and use_regex false. A rank
//     file is written in the same way, with its pattern. Two patterns of tiktoken are replaced by the equivalent
//     patterns of tokenizer.json files. These are GPT-2's, and that of cl100k_base unless a token ends with a newline
//     followed by other white space.
//   - model: type, and those of BPE's options unk_token, fuse_unk, byte_fallback, ignore_merges, dropout,
//     continuing_subword_prefix and end_of_word_suffix that are not null, false or empty. A rank file has
//     ignore_merges.
//   - merges: [left, right] of each merge, in order. Of equal merges, only the last one is included. Lines that begin
//     with #version are ignored. A rank file has at most one merge per token, ordered by rank. It is the last merge
//     when the token's bytes are merged by the ranks of the results.
//   - vocab: [id, token] of each entry, ordered by id, spelled as in the file (a rank file's bytes in GPT-2's
//     alphabet).
//
// Merges that never apply and unreachable entries are omitted from a BPE model. Both remain in a model with dropout, a
// prefix or a suffix, or with a merge that has a special part. Such a part is empty, the unk_token, or with
// byte_fallback one of <0x00> ... <0xFF>.
//
//   - A merge applies if it is the last merge when the characters of its result are merged, lowest rank first and
//     leftmost first.
//   - An entry is reachable if it is one character, the result of a merge that applies, or the unk_token. With
//     byte_fallback, <0x00> ... <0xFF> are reachable. With ignore_merges, every entry is reachable.
//   - ignore_merges is omitted from model if it makes no additional entry reachable.
//
// For other models, model has every field except vocab that is not null, and vocab is the same list. For Unigram, vocab
// is a list of [piece, score] in order. A score is its 64 bits as 16 hexadecimal digits, as the reference reads it from
// the file: all digits as one number, divided or multiplied by a power of ten, which is not always the nearest number.
// truncation and padding are included unchanged if a Tokenizer or a file has them.
//
// # SentencePiece
//
// A tokenizer.model has another object:
//
//   - version: as above.
//   - model: type "SentencePiece", kind (unigram, bpe, word, char), charsmap (the hexadecimal SHA-256 of
//     precompiled_charsmap), and byte_fallback, treat_whitespace_as_suffix, add_dummy_prefix, remove_extra_whitespaces
//     and escape_whitespaces, each true or false.
//   - vocab: [piece, score, type] of each piece, in order. A score is its 32 bits as eight hexadecimal digits. type is
//     the number in ModelProto.
package fingerprint
