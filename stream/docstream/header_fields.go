package docstream

import (
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"loaderd/stream"
)

// headerFields holds the headers of a message. Those that documents may have are under their canonical names. Names
// match in any case, because producers in other languages change it. If several names differ only in case, the exact
// one counts, else the first in byte order. The result therefore depends on the message alone.
type headerFields nats.Header

// knownHeaders lists the canonical names of a document's headers.
var knownHeaders = []string{
	nats.MsgIdHdr, stream.HeaderContentType, stream.HeaderEncoding, stream.HeaderTokenizer, stream.HeaderID,
	stream.HeaderLabel, stream.HeaderPath, stream.HeaderDomain,
	stream.HeaderEmbedding, stream.HeaderLoss, stream.HeaderWeight, stream.HeaderMeta, stream.HeaderInput,
	stream.HeaderTrace,
}

// newHeaderFields returns the fields of a message. For nearly all messages they are its headers themselves, without a
// copy. Matching each name in any case cost more than decoding the headers.
func newHeaderFields(header nats.Header) headerFields {
	for name := range header {
		if !slices.Contains(knownHeaders, name) && canonicalName(name) != "" {
			return canonicalFields(header)
		}
	}
	return headerFields(header)
}

// canonicalName returns the canonical name that equals name in any case, empty for none.
func canonicalName(name string) string {
	if i := slices.IndexFunc(knownHeaders, func(our string) bool { return strings.EqualFold(name, our) }); i >= 0 {
		return knownHeaders[i]
	}
	return ""
}

// canonicalFields returns the fields of a message that has canonical names in another case.
func canonicalFields(header nats.Header) headerFields {
	out := maps.Clone(header)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		our := canonicalName(name)
		if _, there := out[our]; our != "" && !there {
			out[our] = header[name]
		}
	}
	return headerFields(out)
}

// get returns a header's first value, empty for none.
func (f headerFields) get(name string) string {
	if values := f[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// id returns the producer's id: Loaderd-Id, else Nats-Msg-Id.
func (f headerFields) id() string {
	if id := f.get(stream.HeaderID); id != "" {
		return id
	}
	return f.get(nats.MsgIdHdr)
}
