package doclog

import (
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"loaderd/stream"
)

// fields are the headers of a message, those that documents may have under the names in which we write them. Names
// match in any case, as producers in other languages write them; of several that differ in case only, the exact one
// counts, then the first in byte order, so that what is read depends on the message alone.
type fields nats.Header

// ours are the names that a document's headers may have.
var ours = []string{
	nats.MsgIdHdr, stream.HeaderContentType, stream.HeaderEncoding, stream.HeaderTokenizer, stream.HeaderID,
	stream.HeaderLabel, stream.HeaderPath, stream.HeaderDomain,
	stream.HeaderEmbedding, stream.HeaderLoss, stream.HeaderWeight, stream.HeaderMeta, stream.HeaderInput,
	stream.HeaderTrace,
}

// fieldsOf returns the fields of a message. They are its headers themselves for nearly all messages: looking for each
// name in any case cost more than decoding the headers.
func fieldsOf(header nats.Header) fields {
	for name := range header {
		if !slices.Contains(ours, name) && inOurs(name) != "" {
			return renamed(header)
		}
	}
	return fields(header)
}

// inOurs returns which of our names this is in any case, empty for none.
func inOurs(name string) string {
	if i := slices.IndexFunc(ours, func(our string) bool { return strings.EqualFold(name, our) }); i >= 0 {
		return ours[i]
	}
	return ""
}

// renamed returns the fields of a message that has some in another case.
func renamed(header nats.Header) fields {
	out := maps.Clone(header)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		our := inOurs(name)
		if _, there := out[our]; our != "" && !there {
			out[our] = header[name]
		}
	}
	return fields(out)
}

// get returns a header's first value, empty where there is none.
func (f fields) get(name string) string {
	if values := f[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// id returns the producer's id: Loaderd-Id, else Nats-Msg-Id.
func (f fields) id() string {
	if id := f.get(stream.HeaderID); id != "" {
		return id
	}
	return f.get(nats.MsgIdHdr)
}
