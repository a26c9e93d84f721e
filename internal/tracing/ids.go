package tracing

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"loaderd/loader"
)

// newTrace draws a trace that begins here.
func newTrace() *loader.Trace {
	t := &loader.Trace{Parent: newSpan()}
	_, _ = rand.Read(t.ID[:]) // which never fails
	return t
}

func newSpan() (id [8]byte) {
	_, _ = rand.Read(id[:])
	return id
}

// traceparent is the header of W3C trace context for what follows a trace's first span.
func traceparent(t *loader.Trace) string { return fmt.Sprintf("00-%x-%x-01", t.ID, t.Parent) }

// The places of version, trace, parent and flags in a traceparent, which are hexadecimal. Versions to come may go on behind another dash.
const (
	traceAt, parentAt, flagsAt = 3, 36, 53
	traceparentEnd             = 55
)

// readTraceparent reads a traceparent; nil: it is none, or says that the trace is not sampled.
func readTraceparent(s string) *loader.Trace {
	if len(s) < traceparentEnd || s[traceAt-1] != '-' || s[parentAt-1] != '-' || s[flagsAt-1] != '-' || len(s) > traceparentEnd && (s[:2] == "00" || s[traceparentEnd] != '-') {
		return nil
	}
	var t loader.Trace
	var version, flags [1]byte
	if !readHex(version[:], s) || version[0] == 0xff || !readHex(t.ID[:], s[traceAt:]) || !readHex(t.Parent[:], s[parentAt:]) || !readHex(flags[:], s[flagsAt:]) {
		return nil
	}
	if t.ID == [16]byte{} || t.Parent == [8]byte{} || flags[0]&1 == 0 {
		return nil
	}
	return &t
}

// readHex reads as many bytes as there is room for. Capital letters are none of the header's.
func readHex(into []byte, s string) bool {
	s = s[:2*len(into)]
	_, err := hex.Decode(into, []byte(s))
	return err == nil && hex.EncodeToString(into) == s
}
