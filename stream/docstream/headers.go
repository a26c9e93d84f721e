package docstream

import (
	"bytes"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
)

// headerParser parses raw header blocks as the library does. The headers of one message are valid until the next read.
// Nearly all messages of a stream have the same headers except for the value of one or two. read therefore reuses the
// last headers and allocates only changed values. Allocating a map and its values per message caused a fifth of all
// objects of a daemon.
type headerParser struct {
	last  nats.Header
	lines []headerLine // of which last was parsed, if each name has one value; else empty
}

// headerLine is a header line as it was read.
type headerLine struct {
	text  string // <name>:<value>
	name  int    // length of the name in bytes
	value []string
}

var headersPrefix = []byte("NATS/1.0\r\n")

// parse returns the headers of a block, and an error if the block is malformed.
func (h *headerParser) parse(raw []byte) (nats.Header, error) {
	if h.reparse(raw) {
		return h.last, nil
	}
	header, err := nats.DecodeHeadersMsg(raw)
	h.recordLines(raw, header)
	return header, err
}

// reparse updates the last headers from a block with the same names. It returns false for other names.
func (h *headerParser) reparse(raw []byte) bool {
	rest, ok := bytes.CutPrefix(raw, headersPrefix)
	if !ok || len(h.lines) == 0 {
		return false
	}
	for i := range h.lines {
		var line []byte
		if line, rest, ok = cutHeaderLine(rest); !ok {
			return false
		}
		left := h.lines[i:] // the client library writes headers in random order
		k := slices.IndexFunc(left, func(l headerLine) bool {
			return len(line) > l.name && string(line[:l.name+1]) == l.text[:l.name+1]
		})
		if k < 0 {
			return false
		}
		left[0], left[k] = left[k], left[0]
		left[0].set(line)
	}
	line, _, ok := cutHeaderLine(rest)
	return ok && len(line) == 0
}

// set gives the header the value of a line with the same name.
func (l *headerLine) set(line []byte) {
	if string(line) != l.text {
		l.text = string(line)
		l.value[0] = strings.TrimLeft(l.text[l.name+1:], " \t")
	}
}

// recordLines records the lines of a block and its parsed headers.
func (h *headerParser) recordLines(raw []byte, header nats.Header) {
	h.last, h.lines = header, h.lines[:0]
	rest, ok := bytes.CutPrefix(raw, headersPrefix)
	for ok {
		var line []byte
		if line, rest, ok = cutHeaderLine(rest); !ok || len(line) == 0 {
			return
		}
		name := max(bytes.IndexByte(line, ':'), 0)
		value := header[string(line[:name])]
		if len(value) != 1 {
			h.lines = h.lines[:0]
			return
		}
		h.lines = append(h.lines, headerLine{string(line), name, value})
	}
}

// cutHeaderLine returns the first line of a block; ok is false if the line is not terminated.
func cutHeaderLine(raw []byte) (line, rest []byte, ok bool) {
	line, rest, ok = bytes.Cut(raw, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), rest, ok
}
