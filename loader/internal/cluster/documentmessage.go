package cluster

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"loaderd/loader/docrecord"
	"loaderd/loader/document"
	"loaderd/loader/internal/codec"
	"loaderd/loader/plan"
)

// Requests for documents and their answers use the same bus as the other requests, whose JSON never begins with this
// byte.
const documentMessage = 1

const (
	// maxRequestedDocuments bounds the documents of one request.
	maxRequestedDocuments = 1024
	// maxAnswerBytes bounds an answer. It fits the smallest max_payload of NATS servers in use.
	maxAnswerBytes = 256 << 10
	// maxKeyBytes bounds the key of a request.
	maxKeyBytes = 1 << 10
)

var (
	errNoDocuments = errors.New("the message is no answer with documents")
	castagnoli     = crc32.MakeTable(crc32.Castagnoli)
)

// documentRequest requests the contents of documents that the leader has cached.
type documentRequest struct {
	key  string   // identifies the plan; a leader of another one does not answer
	refs []uint64 // plan references, ascending
}

// encode returns the encoded request: documentMessage, the key, the number of references, and their differences.
func (q documentRequest) encode() []byte {
	b := codec.AppendString([]byte{documentMessage}, q.key)
	b = binary.AppendUvarint(b, uint64(len(q.refs)))
	previous := uint64(0)
	for _, ref := range q.refs {
		b = binary.AppendUvarint(b, ref-previous)
		previous = ref
	}
	return b
}

// decodeDocumentRequest decodes a request without its first byte.
func decodeDocumentRequest(b []byte) (documentRequest, error) {
	in := codec.Cursor{Buf: b}
	q := documentRequest{key: string(in.Bytes(int(in.BoundedUvarint(maxKeyBytes))))}
	q.refs = make([]uint64, in.BoundedUvarint(maxRequestedDocuments))
	previous := uint64(0)
	for i := range q.refs {
		previous += in.Uvarint()
		q.refs[i] = previous
	}
	if len(in.Buf) > 0 {
		in.Fail(errNoDocuments)
	}
	return q, in.Err
}

// documentAnswer is an answer: documentMessage, the CRC-32C of the rest, and an entry for each of the first requested
// documents in order. An entry is the length of the encoded document plus 1, and the document; or 0 for an absent one.
type documentAnswer struct {
	message   []byte
	scratch   []byte
	documents int64 // in the answer
}

const answerHeader = 5 // bytes

func newDocumentAnswer() *documentAnswer {
	return &documentAnswer{message: append(make([]byte, 0, maxAnswerBytes), documentMessage, 0, 0, 0, 0)}
}

// add adds the content of the next requested document. It returns false if the answer has no room. A document that no
// answer has room for, and one with a trace, which is not sent, count as absent.
func (a *documentAnswer) add(c document.Content) bool {
	if c.Trace != nil {
		return a.addAbsent()
	}
	a.scratch = docrecord.Append(a.scratch[:0], &document.Document{Content: c}, "")
	n := len(a.scratch) + binary.MaxVarintLen32
	if n > maxAnswerBytes-answerHeader {
		return a.addAbsent()
	}
	if len(a.message)+n > maxAnswerBytes {
		return false
	}
	a.message = append(binary.AppendUvarint(a.message, uint64(len(a.scratch))+1), a.scratch...)
	a.documents++
	return true
}

// addAbsent adds that the next requested document is not cached. It returns false if the answer has no room.
func (a *documentAnswer) addAbsent() bool {
	if len(a.message) >= maxAnswerBytes {
		return false
	}
	a.message = append(a.message, 0)
	return true
}

// encode returns the encoded answer.
func (a *documentAnswer) encode() []byte {
	binary.LittleEndian.PutUint32(a.message[1:], crc32.Checksum(a.message[answerHeader:], castagnoli))
	return a.message
}

// decodeDocumentAnswer calls f with each document of an answer to a request for refs. It returns the number of
// references that the answer covers, at least one, or an error.
func decodeDocumentAnswer(b []byte, refs []uint64, f func(ref uint64, c document.Content)) (covered int, err error) {
	if len(b) <= answerHeader || b[0] != documentMessage ||
		binary.LittleEndian.Uint32(b[1:]) != crc32.Checksum(b[answerHeader:], castagnoli) {
		return 0, errNoDocuments
	}
	for in := (codec.Cursor{Buf: b[answerHeader:]}); len(in.Buf) > 0; covered++ {
		n := in.BoundedUvarint(maxAnswerBytes)
		switch {
		case in.Err != nil:
			return covered, in.Err
		case covered == len(refs):
			return covered, errNoDocuments
		case n == 0:
			continue
		}
		data := in.Bytes(int(n) - 1)
		if in.Err != nil {
			return covered, in.Err
		}
		d, _, err := docrecord.Parse(data, plan.RefSequence(refs[covered]))
		if err != nil {
			return covered, err
		}
		f(refs[covered], d.Content)
	}
	return covered, nil
}
