package sentencepiece

import (
	"slices"
	"unicode/utf8"

	"loaderd/tokenizer/internal/norm"
	"loaderd/tokenizer/internal/unigram"
)

// Encoder normalizes texts, and completes the ids of their words. It has the scratch space of one goroutine.
type Encoder struct {
	model     *Model
	text      []byte
	unigram   *unigram.Segmenter[float32]
	path      []int32
	sum       float32 // of the scores of the text so far
	inUnknown bool    // the text so far ends with unknown text
}

// NewEncoder returns an encoder for one goroutine.
func (m *Model) NewEncoder() *Encoder {
	e := &Encoder{model: m}
	if m.unigram != nil {
		e.unigram = m.unigram.NewSegmenter()
	}
	return e
}

// Start returns the normalized form of a text whose ids are appended next, valid until the next call. The text is
// valid UTF-8.
func (e *Encoder) Start(text []byte) []byte {
	e.sum, e.inUnknown = 0, false
	e.text = e.model.normalizer.append(norm.ReuseBuffer(e.text), text)
	return e.text
}

// Trim releases memory that a large text needed.
func (e *Encoder) Trim() {
	e.text = norm.ReuseBuffer(e.text)
	if cap(e.path) > chunkBytes {
		e.path = nil
	}
}

// chunkBytes is the minimum size of a chunk.
const chunkBytes = 1 << 15

// ChunkEnd returns the end of the first chunk of a text, which consists of whole words.
func (e *Encoder) ChunkEnd(s []byte) int {
	if len(s) <= chunkBytes {
		return len(s)
	}
	return e.wordEnd(s, chunkBytes)
}

// wordEnd returns the end of the word of s that contains the byte at i.
func (e *Encoder) wordEnd(s []byte, i int) int {
	for i++; i < len(s) && !e.model.cuts.Has(s[i-1], s[i]); i++ {
	}
	return min(i, len(s))
}

// Append appends the ids of the next chunk of a text, given those of its words from segmenters.
func (e *Encoder) Append(dst, ids []int32, s []byte) []int32 {
	m := e.model
	at := 0
	dst = slices.Grow(dst, len(ids))
	for k := 0; k < len(ids); {
		if n, size := e.known(ids[k:]); n > 0 {
			dst = append(dst, ids[k:k+n]...)
			k, at = k+n, at+size
			e.inUnknown = false
			continue
		}
		if m.Kind == Unigram && e.isNearReset() && (at == 0 || m.cuts.Has(s[at-1], s[at])) {
			end := e.wordEnd(s, at)
			dst = e.appendExactly(dst, s[at:end])
			for at < end {
				var size int
				k, size = e.next(ids, k, s[at:])
				at += size
			}
			continue
		}
		id := ids[k]
		next, size := e.next(ids, k, s[at:])
		switch {
		case id < m.unknownID():
			dst = append(dst, id)
			e.inUnknown = false
			if m.unigram != nil {
				e.sum += m.unigram.ScoreOf(id)
			}
		case id == m.unknownID():
			dst = e.appendUnknown(dst, s[at:at+size])
			if m.unigram != nil {
				e.sum += m.unigram.UnknownScore()
			}
		default:
			dst = e.appendExactly(dst, s[at:at+size])
		}
		k, at = next, at+size
	}
	return dst
}

// known returns the number of ids at the start that are those of a text, and adds their scores. size is the number of
// bytes that they represent.
func (e *Encoder) known(ids []int32) (n, size int) {
	m := e.model
	sum := e.sum
	for n < len(ids) && ids[n] < m.unknownID() && sum >= maxWordSum-resetAt && sum <= resetAt-maxWordSum {
		x := &m.measures[ids[n]]
		sum += x.score
		size += int(x.length)
		n++
	}
	e.sum = sum
	return n, size
}

// isNearReset reports whether the sum may reach resetAt within a word.
func (e *Encoder) isNearReset() bool {
	return e.sum > resetAt-maxWordSum || e.sum < maxWordSum-resetAt
}

// next returns the index after the k-th of the ids of segmenters, and the number of bytes that it represents at the
// start of s.
func (e *Encoder) next(ids []int32, k int, s []byte) (next, size int) {
	m := e.model
	switch id := ids[k]; {
	case id < m.unknownID():
		return k + 1, len(m.texts[id])
	case id > m.unknownID():
		return k + 2, int(ids[k+1])
	case m.Kind == Word:
		return k + 1, e.wordEnd(s, 0)
	}
	_, size = utf8.DecodeRune(s)
	return k + 1, size
}

// appendExactly appends the ids of text by the sum of the text before it.
func (e *Encoder) appendExactly(dst []int32, text []byte) []int32 {
	e.path, e.sum = appendPath(e.unigram, e.path[:0], text, e.sum)
	for k := 0; k < len(e.path); {
		id := e.path[k]
		next, size := e.next(e.path, k, text)
		if id == e.model.unknownID() {
			dst = e.appendUnknown(dst, text[:size])
		} else {
			dst = append(dst, id)
			e.inUnknown = false
		}
		k, text = next, text[size:]
	}
	return dst
}

// appendUnknown appends the ids of unknown text: of its bytes, or one for adjacent unknown texts.
func (e *Encoder) appendUnknown(dst []int32, text []byte) []int32 {
	m := e.model
	if !m.ByteFallback {
		if !e.inUnknown {
			dst = append(dst, m.unknown)
		}
		e.inUnknown = true
		return dst
	}
	for _, b := range text {
		if b == ' ' && m.EscapeWhitespaces {
			for i := range len(spaceMark) {
				dst = append(dst, m.bytes[spaceMark[i]])
			}
			continue
		}
		dst = append(dst, m.bytes[b])
	}
	return dst
}
