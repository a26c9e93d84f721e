package docstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"loaderd/internal/invalidutf8"
	"loaderd/stream"
	"loaderd/stream/deadletter"
)

// decodeContent returns a message's payload without its content coding. Decoding to more than stream.MaxDocumentLimit
// bytes is a problem.
func decodeContent(coding string, data []byte) ([]byte, *deadletter.Problem) {
	decompress := decompressGzip
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "", "identity":
		return data, nil
	case "gzip", "x-gzip":
	case "zstd":
		decompress = decompressZstd
	default:
		return nil, newProblem(badCoding, "content encoding %s: only gzip, zstd and identity are taken", quoteValue(coding))
	}
	out, err := decompress(data)
	switch {
	case errors.Is(err, errExpanded):
		return nil, newProblem(tooLarge, "the payload has more than %d bytes without its content encoding",
			stream.MaxDocumentLimit)
	case err != nil:
		return nil, newProblem(badCoding, "content encoding %s: %v", quoteValue(coding), err)
	}
	return out, nil
}

var errExpanded = errors.New("larger than a message may be")

func decompressGzip(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(z, stream.MaxDocumentLimit+1))
	if err == nil && len(out) > stream.MaxDocumentLimit {
		err = errExpanded
	}
	return out, err
}

// zstdDecoder decodes whole payloads, several at a time.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(stream.MaxDocumentLimit))
})

func decompressZstd(data []byte) ([]byte, error) {
	z, err := zstdDecoder()
	if err != nil {
		return nil, fmt.Errorf("prepare the decoder: %w", err)
	}
	out, err := z.DecodeAll(data, nil)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		err = errExpanded
	}
	return out, err
}

// isJSONDocument reports whether a payload without a content type is a JSON document. As a text, its names and brackets
// would become training data.
func isJSONDocument(data []byte) bool {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return false
	}
	j, failed := decodeJSON(data)
	return failed == nil && (j.text != nil || j.parts != nil)
}

// countInvalid counts the bytes of a text that are not UTF-8. More than their permitted share is an error, because the
// text is then in another encoding or not a text.
func (d *decodedDocument) countInvalid() (n int, _ *deadletter.Problem) {
	n, size := invalidutf8.Count(d.text), len(d.text)
	for _, p := range d.parts {
		n, size = n+invalidutf8.Count(p.text), size+len(p.text)
	}
	if invalidutf8.Exceeds(n, size) {
		return n, newProblem(badEncoding, "%d of %d bytes of text are not UTF-8, more than 1 in %d", n, size,
			invalidutf8.Share)
	}
	return n, nil
}
