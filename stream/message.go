package stream

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"github.com/nats-io/nats.go"
)

// Headers of a document's message. Nats-Msg-Id is the producer's dedupe key and, without Loaderd-Id, also the
// document's id.
const (
	HeaderContentType = "Content-Type"
	HeaderEncoding    = "Content-Encoding" // of the payload: gzip, zstd or identity
	HeaderID          = "Loaderd-Id"
	// what the ledger calls the document, where that is no id: others may be called the same
	HeaderLabel     = "Loaderd-Label"
	HeaderPath      = "Loaderd-Path"
	HeaderDomain    = "Loaderd-Domain"
	HeaderEmbedding = "Loaderd-Embedding" // base64 of the document's embedding: int8, or float32 little-endian
	HeaderTokenizer = "Loaderd-Tokenizer" // fingerprint of the tokenizer that made the tokens
	// of tokens: lengths of runs, in turns with and without a loss, beginning with those that have one: 0,120,34
	HeaderLoss   = "Loaderd-Loss"
	HeaderWeight = "Loaderd-Weight" // factor of the loss of the document's tokens, 0 or more
	HeaderMeta   = "Loaderd-Meta"   // of a text or of tokens: a JSON object, as "meta" of a JSON document
	// place in the input (from 0), a blank, and the input's name: for who publishes, nobody else reads it
	HeaderInput = "Loaderd-Input"
	HeaderTrace = "traceparent" // W3C trace context of a document that is traced
)

// Content types of a document's message. Without the header it is text.
const (
	TypeText = "text/plain" // UTF-8
	// {"id", "text", "weight", "meta": {...}}, or "parts": [{"text", "loss"}, ...] in place of "text"
	TypeJSON   = "application/json"
	TypeTokens = "application/vnd.loaderd.tokens"      // little-endian int32 ids, already tokenized
	TypeArrow  = "application/vnd.apache.arrow.stream" // record batches of tokenized documents, a row each
)

// Message is a document as a producer hands it over. Only Subject and Data are required.
type Message struct {
	Subject     string // docs.<source>
	ID          string // producer's id: the same id is stored once within the server's dedupe window
	Name        string // the document's own id, where it is not ID
	Label       string // what the ledger calls the document; others may have the same
	Path        string
	Domain      string
	ContentType string   // one of the Type constants; empty is text
	Tokenizer   string   // fingerprint, required with TypeTokens
	Trace       string   // traceparent of a document that is traced
	Loss        []int32  // of tokens: lengths of runs, in turns with and without a loss; nil: all have one
	Weight      *float32 // factor of the loss; nil is 1
	Meta        string   // of a text or of tokens: a JSON object
	Input       string   // place in the producer's input, a blank, and its name
	Data        []byte
}

// NATS returns the message as it goes over the wire. Data is not copied.
func (m Message) NATS() *nats.Msg {
	msg := &nats.Msg{Subject: m.Subject, Data: m.Data}
	set := func(name, value string) {
		if value == "" {
			return
		}
		if msg.Header == nil {
			msg.Header = make(nats.Header, 4)
		}
		msg.Header.Set(name, value)
	}
	set(nats.MsgIdHdr, m.ID)
	set(HeaderID, m.Name)
	set(HeaderLabel, m.Label)
	set(HeaderPath, m.Path)
	set(HeaderDomain, m.Domain)
	set(HeaderTokenizer, m.Tokenizer)
	set(HeaderTrace, m.Trace)
	set(HeaderMeta, m.Meta)
	set(HeaderInput, m.Input)
	if m.Loss != nil {
		set(HeaderLoss, runs(m.Loss))
	}
	if m.Weight != nil {
		set(HeaderWeight, strconv.FormatFloat(float64(*m.Weight), 'g', -1, 32))
	}
	if m.ContentType != "" && m.ContentType != TypeText {
		set(HeaderContentType, m.ContentType)
	} else if bytes.HasPrefix(bytes.TrimLeft(m.Data, " \t\r\n"), []byte("{")) {
		set(HeaderContentType, TypeText) // or it would be taken for JSON without the header
	}
	return msg
}

func runs(lengths []int32) string {
	var b []byte
	for i, n := range lengths {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(b)
}

// AppendTokens appends ids to b as TypeTokens has them.
func AppendTokens(b []byte, ids []int32) []byte {
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return b
}
