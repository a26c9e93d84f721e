package docstream

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"mime"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/nats-io/nats.go"

	"loaderd/loader/filter"
	"loaderd/loader/plan"
	"loaderd/stream"
	"loaderd/stream/deadletter"
)

// Reasons why a document is undecodable. The names are stable and appear in the header Loaderd-Reason of its dead
// letter.
const (
	badHeaders      = "BAD_HEADERS"          // the header block is malformed
	badContentType  = "BAD_CONTENT_TYPE"     // Content-Type is malformed or not accepted by the run
	badCharset      = "BAD_CHARSET"          // a charset other than UTF-8
	badCoding       = "BAD_CONTENT_ENCODING" // Content-Encoding is not accepted, or the payload is not so encoded
	badEncoding     = "BAD_ENCODING"         // more of a text is invalid UTF-8 than may be replaced
	badJSON         = "INVALID_JSON"         // not one JSON object with a string under text
	badTokens       = "BAD_TOKENS"           // not a whole number of int32 ids
	wrongTokenizer  = "WRONG_TOKENIZER"      // tokenized by another tokenizer than the run's
	tokenOutOfRange = "TOKEN_OUT_OF_RANGE"   // an id outside the vocabulary
	noTokenizer     = "NO_TOKENIZER"         // text, but the run accepts only tokenized documents
	badBatch        = "BAD_BATCH"            // not an Arrow IPC stream, or a row without ids
	// not a list of objects with a string under text, and true or false under loss
	badParts  = "BAD_PARTS"
	badLoss   = "BAD_LOSS"   // lengths of runs that are invalid, or do not add up to the document's tokens
	badWeight = "BAD_WEIGHT" // not a number, negative or not finite
	// a column that is missing, unknown, of another type, or without exactly one value per token
	badColumn    = "BAD_COLUMN"
	badMeta      = "BAD_META"      // a value of another type than the run's, or too long
	badEmbedding = "BAD_EMBEDDING" // of another length than the run's, or with a number that is not finite
	tooLarge     = "TOO_LARGE"     // more tokens than a document may have
	encoderPanic = "ENCODER_PANIC" // the tokenizer failed on the text
)

// newProblem returns the problem of an invalid message: one of the reasons above, and a sentence about this message.
func newProblem(reason, format string, args ...any) *deadletter.Problem {
	return &deadletter.Problem{Reason: reason, Sentence: fmt.Sprintf(format, args...)}
}

// decodedDocument is a document before it is tokenized: text, parts of a text, or tokens.
type decodedDocument struct {
	id       string // producer's id, empty for none
	path     string // path at its origin, empty if not given
	vector   []int8 // embedding, nil for none or if the run compares none
	text     []byte
	parts    []part        // instead of text, if it arrived in parts
	tokens   []int32       // has room for one more id; nil for text
	replaced int           // bytes of text and parts that are not UTF-8; the tokenizer reads U+FFFD instead
	loss     plan.LossRuns // of the tokens
	weight   *float32      // nil means 1
	// columns holds the values per token, by the index of the run's column. An entry, or the whole, is nil if the
	// document has no such column.
	columns [][]byte
	meta    []any // as document.Content.Meta
	// documents holds the documents of a message of record batches. All other fields but vector are then empty.
	documents []decodedDocument
	bytes     int // of the text or the parts, or of the ids with 4 bytes each
}

// size returns the bytes of the text, the parts or the ids.
func (d *decodedDocument) size() int {
	n := len(d.text) + idBytes*len(d.tokens)
	for _, p := range d.parts {
		n += len(p.text)
	}
	return n
}

// attributes returns the inputs of filters. They share the memory of meta.
func (d *decodedDocument) attributes() *filter.Attributes {
	return &filter.Attributes{ID: filter.Truncate(d.id), Path: filter.Truncate(d.path), Bytes: d.bytes, Meta: d.meta}
}

// part is a part of a text that is tokenized separately.
type part struct {
	text []byte
	loss bool // its tokens have a loss
}

func (p part) hasText() bool { return len(p.text) > 0 }

// decoder holds what decoding depends on besides the message.
type decoder struct {
	fingerprint string  // tokenizer that tokens must come from
	vocab       int     // ids are 0 ... vocab-1
	limit       int     // maximum tokens of a document, including its end
	scratch     []int32 // scratch space for tokens, which are then valid until its next use; nil: new memory
	dimension   int     // of embeddings, 0 if the run compares none
	batches     bool    // messages may hold several documents
	columns     []tokenColumn
	meta        []metaColumn
	ignored     []string // columns that documents may have and the run ignores
}

// idBytes is the size of a token id in bytes.
const idBytes = 4

// maxTokens is the largest number of tokens of a document: lengths are int32.
const maxTokens = math.MaxInt32

// maxDocumentTokens returns the maximum tokens of a document. It is lower if a plan names a document by its first token
// in a message.
func (t Tokenization) maxDocumentTokens() int {
	if t.Documents.CanHoldMultiple() {
		return plan.MaxPartTokens
	}
	return maxTokens
}

// decode turns a message into a document. It is a pure function of the decoder, header and data.
func (d decoder) decode(header nats.Header, data []byte) (decodedDocument, *deadletter.Problem) {
	f := newHeaderFields(header)
	kind, err := mediaType(f.get(stream.HeaderContentType))
	if err == nil {
		data, err = decodeContent(f.get(stream.HeaderEncoding), data)
	}
	if err == nil && f.get(stream.HeaderContentType) == "" && isJSONDocument(data) {
		err = newProblem(badContentType,
			`the payload is a JSON object with "text" or "parts" and has no content type: send %s, or %s for a text`,
			stream.TypeJSON, stream.TypeText)
	}
	if err != nil {
		return decodedDocument{}, err
	}
	out := decodedDocument{id: f.id(), path: f.get(stream.HeaderPath)}
	switch kind {
	case stream.TypeText:
		out.text = data
	case stream.TypeJSON:
		var j jsonDocument
		j, err = decodeJSON(data)
		out.text, out.parts, out.id, out.path = j.text, j.parts, cmp.Or(out.id, j.id), cmp.Or(out.path, j.path)
		if err == nil && j.weight != nil && f.get(stream.HeaderWeight) == "" {
			out.weight, err = parseWeight(string(j.weight), `"weight"`)
		}
		if err == nil && j.meta != nil && string(j.meta) != "null" && f.get(stream.HeaderMeta) == "" {
			out.meta, err = d.parseMeta(j.meta, `"meta"`)
		}
		if err == nil && d.dimension > 0 && j.embedding != nil {
			out.vector, err = d.parseJSONVector(j.embedding)
		}
	case stream.TypeTokens:
		if out.tokens, err = d.decodeTokens(f, data); err == nil {
			out.loss, err = parseLoss(f.get(stream.HeaderLoss), len(out.tokens))
		}
	case stream.TypeArrow:
		out = decodedDocument{}
		out.documents, err = d.decodeBatch(f, data)
	default:
		err = newProblem(badContentType, "content type %s is none of %s, %s, %s and %s", quoteValue(kind), stream.TypeText,
			stream.TypeJSON, stream.TypeTokens, stream.TypeArrow)
	}
	if err == nil && kind != stream.TypeTokens && f.get(stream.HeaderLoss) != "" {
		err = newProblem(badLoss, `header %s is for tokens; in a text, give the loss in "parts"`, stream.HeaderLoss)
	}
	if value := f.get(stream.HeaderWeight); err == nil && value != "" && kind == stream.TypeArrow {
		err = newProblem(badWeight, "header %s is of one document; column %s has those of several", stream.HeaderWeight,
			columnWeight)
	} else if err == nil && value != "" {
		out.weight, err = parseWeight(value, "header "+stream.HeaderWeight)
	}
	if value := f.get(stream.HeaderMeta); err == nil && value != "" && kind == stream.TypeArrow && len(d.meta) > 0 {
		err = newProblem(badMeta, "header %s is of one document; columns have the values of several", stream.HeaderMeta)
	} else if err == nil && value != "" && len(d.meta) > 0 {
		out.meta, err = d.parseHeaderMeta(value)
	}
	if value := f.get(stream.HeaderEmbedding); err == nil && d.dimension > 0 && value != "" {
		out.vector, err = d.parseHeaderVector(value)
	}
	if err == nil {
		out.bytes = out.size()
		out.replaced, err = out.countInvalid()
	}
	if err != nil {
		return decodedDocument{}, err
	}
	return out, nil
}

// mediaType returns a Content-Type's media type in lower case and checks its charset.
func mediaType(value string) (string, *deadletter.Problem) {
	switch value {
	case "", stream.TypeText:
		return stream.TypeText, nil
	case stream.TypeJSON, stream.TypeTokens, stream.TypeArrow:
		return value, nil
	}
	kind, parameters, err := mime.ParseMediaType(value)
	if err != nil {
		return "", newProblem(badContentType, "content type %s is malformed: %v", quoteValue(value), err)
	}
	switch charset := parameters["charset"]; strings.ToLower(charset) {
	case "", "utf-8", "utf8", "us-ascii":
		return kind, nil
	default:
		return "", newProblem(badCharset, "charset %s: only UTF-8 is taken", quoteValue(charset))
	}
}

// checkTokenizer returns a problem if the tokens come from another tokenizer than the run's.
func (d decoder) checkTokenizer(f headerFields) *deadletter.Problem {
	if print := f.get(stream.HeaderTokenizer); print != d.fingerprint || print == "" {
		return newProblem(wrongTokenizer, "header %s is %s, the run's tokenizer is %s", stream.HeaderTokenizer,
			quoteValue(print),
			quoteValue(d.fingerprint))
	}
	return nil
}

// decodeTokens reads little-endian int32 ids and checks each against the vocabulary.
func (d decoder) decodeTokens(f headerFields, data []byte) ([]int32, *deadletter.Problem) {
	if failed := d.checkTokenizer(f); failed != nil {
		return nil, failed
	}
	if len(data)%4 != 0 {
		return nil, newProblem(badTokens, "%d bytes are not a whole number of int32 ids", len(data))
	}
	n := len(data) / 4
	if n > d.limit {
		return nil, newProblem(tooLarge, "%d tokens, a document may have %d", n, d.limit)
	}
	ids := d.scratch
	if cap(ids) <= n {
		ids = make([]int32, 0, n+1)
	}
	ids = ids[:n]
	if uint64(copyIDs(ids, data)) >= uint64(d.vocab) {
		for i, id := range ids {
			if uint64(uint32(id)) >= uint64(d.vocab) {
				return nil, newProblem(tokenOutOfRange, "id %d at position %d is outside the vocabulary of %d ids", id, i, d.vocab)
			}
		}
	}
	return ids, nil
}

// copyIDs fills ids from little-endian int32 and returns the largest id as uint32, so a negative id is larger than
// all others. It processes four ids per iteration. Copying and checking them one by one took half the time of reading
// a tokenized document.
func copyIDs(ids []int32, data []byte) uint32 {
	var most, also uint32 // of alternate ids, as independent dependency chains
	for len(ids) >= 4 && len(data) >= 16 {
		low, high := binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:16])
		a, b, c, d := uint32(low), uint32(low>>32), uint32(high), uint32(high>>32)
		most, also = max(most, a, c), max(also, b, d)
		ids[0], ids[1], ids[2], ids[3] = int32(a), int32(b), int32(c), int32(d)
		ids, data = ids[4:], data[16:]
	}
	for i := range ids {
		id := binary.LittleEndian.Uint32(data[4*i:])
		most, ids[i] = max(most, id), int32(id)
	}
	return max(most, also)
}

// parseLoss parses the lengths of alternating runs of tokens with and without a loss. They must add up to the
// document's tokens.
func parseLoss(value string, tokens int) (plan.LossRuns, *deadletter.Problem) {
	if value == "" {
		return nil, nil
	}
	var lengths []int32
	sum := 0
	for run := range strings.SplitSeq(value, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(run), 10, 31)
		if err != nil {
			return nil, newProblem(badLoss, "header %s: %s is no length of a run in tokens", stream.HeaderLoss, quoteValue(run))
		}
		if sum += int(n); sum > tokens {
			break
		}
		lengths = append(lengths, int32(n))
	}
	if sum != tokens {
		return nil, newProblem(badLoss, "header %s: runs of %d tokens or more, the document has %d", stream.HeaderLoss,
			sum, tokens)
	}
	return plan.NewLossRuns(lengths), nil
}

// parseWeight parses a weight; 1 yields nil.
func parseWeight(value, where string) (*float32, *deadletter.Problem) {
	f, err := strconv.ParseFloat(value, 32)
	w, ok := newWeight(f)
	if err != nil || !ok {
		return nil, newProblem(badWeight, "%s is %s: want a finite number, 0 or more", where, quoteValue(value))
	}
	return w, nil
}

// newWeight returns a weight as documents store it, nil for 1. ok is false unless f is finite and at least 0.
func newWeight(f float64) (w *float32, ok bool) {
	if !(f >= 0) || f > math.MaxFloat32 {
		return nil, false
	}
	if f == 1 {
		return nil, true
	}
	x := float32(f)
	return &x, true
}

// idDomain separates hashes of document ids from other hashes of the same strings.
const idDomain = "loaderd document id\x00"

// hashID returns document.Document.ID of a producer's id: XXH64 with seed 0 of idDomain and the id. 0 means no
// id, so a hash of 0 becomes 1.
func hashID(id string) uint64 {
	if id == "" {
		return 0
	}
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(idDomain) // never fails
	_, _ = d.WriteString(id)
	return max(d.Sum64(), 1)
}

// quoteValue formats an external value for a sentence, on one line and truncated to 80 bytes.
func quoteValue(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q...", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
