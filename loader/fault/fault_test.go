package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"loaderd/loader/fault"
)

func TestText_HasMessagesAndCause(t *testing.T) {
	lost := errors.New("nats: server is disconnected")
	inner := &fault.Error{Reason: fault.SourceDown, Message: `ask for the state of stream "DOCS"`,
		Advice: "check that NATS is up", Facts: map[string]string{"stream": "DOCS"}, Err: lost}
	for want, err := range map[string]error{
		"nats: server is disconnected":                                     lost,
		`ask for the state of stream "DOCS": nats: server is disconnected`: fmt.Errorf("read: %w", inner),
		`ask for the state of stream "DOCS"`:                               &fault.Error{Message: inner.Message},
	} {
		if got := fault.Text(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
