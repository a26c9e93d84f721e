package proxy

import (
	"bufio"
	"bytes"
	"strconv"
)

// readLine reads a line with its end and appends it to into. The result has at most limit bytes.
func readLine(r *bufio.Reader, into []byte, limit int) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(into)+len(part) > limit {
			return nil, errProtocol
		}
		into = append(into, part...)
		if err != bufio.ErrBufferFull {
			return into, err
		}
	}
}

// lineParts are the parts of a line, including its verb. No line has more than six.
type lineParts struct {
	parts [6][]byte
	n     int
}

// splitLine splits a line at blanks. It returns false for a line with too many parts or none.
func splitLine(line []byte) (w lineParts, ok bool) {
	for {
		line = bytes.TrimLeft(line, " \t\r\n")
		if len(line) == 0 {
			return w, w.n > 0
		}
		if w.n == len(w.parts) {
			return w, false
		}
		end := bytes.IndexAny(line, " \t\r\n")
		if end < 0 {
			end = len(line)
		}
		w.parts[w.n], line = line[:end], line[end:]
		w.n++
	}
}

// args returns the parts after the verb.
func (w *lineParts) args() [][]byte { return w.parts[1:w.n] }

// message is a message of either direction, without its content.
type message struct {
	subject, reply string
	head, size     int // bytes of the headers, and of headers and payload together
}

// parseNumber parses digits. The server accepts at most nine for a size.
func parseNumber(word []byte) (int, bool) {
	const most = 9
	if len(word) == 0 || len(word) > most {
		return 0, false
	}
	n := 0
	for _, c := range word {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// parseSizes parses the numbers at the end of a line and returns the parts before them.
func parseSizes(args [][]byte, headers bool) (before [][]byte, head, size int, ok bool) {
	n := len(args) - 1
	if headers {
		n--
	}
	if n < 0 {
		return nil, 0, 0, false
	}
	if size, ok = parseNumber(args[len(args)-1]); ok && headers {
		head, ok = parseNumber(args[n])
		ok = ok && head <= size
	}
	return args[:n], head, size, ok
}

// parsePublish parses the arguments of PUB and HPUB.
func parsePublish(args [][]byte, headers bool) (m message, ok bool) {
	args, m.head, m.size, ok = parseSizes(args, headers)
	if !ok || len(args) < 1 || len(args) > 2 {
		return m, false
	}
	m.subject = string(args[0])
	if len(args) == 2 {
		m.reply = string(args[1])
	}
	return m, true
}

// line appends a message's protocol line for the server to b.
func (m *message) line(b []byte) []byte {
	verb := "PUB "
	if m.head > 0 {
		verb = "HPUB "
	}
	b = append(append(append(b, verb...), m.subject...), ' ')
	if m.reply != "" {
		b = append(append(b, m.reply...), ' ')
	}
	if m.head > 0 {
		b = append(strconv.AppendInt(b, int64(m.head), 10), ' ')
	}
	return append(strconv.AppendInt(b, int64(m.size), 10), '\r', '\n')
}

// headers are the headers that the proxy checks.
type headers struct {
	longestID int // bytes of the longest message id
	batch     []byte
	commit    bool // ends the batch
}

var (
	crlf        = []byte("\r\n")
	idKey       = []byte("Nats-Msg-Id:")
	batchKey    = []byte("Nats-Batch-Id:")
	batchCommit = []byte("Nats-Batch-Commit:")
)

// scanHeaders reads the headers of a message with the server's rules: names are case-sensitive, and the first batch id
// counts. Of several message ids it returns the length of the longest.
func scanHeaders(head []byte) (h headers) {
	_, head, _ = bytes.Cut(head, crlf) // the version
	for len(head) > 0 {
		var line []byte
		line, head, _ = bytes.Cut(head, crlf)
		if id, ok := bytes.CutPrefix(line, idKey); ok {
			h.longestID = max(h.longestID, len(bytes.TrimLeft(id, " ")))
		}
		if id, ok := bytes.CutPrefix(line, batchKey); ok && h.batch == nil {
			h.batch = bytes.TrimLeft(id, " ")
		}
		h.commit = h.commit || bytes.HasPrefix(line, batchCommit)
	}
	return h
}
