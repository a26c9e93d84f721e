// Package refusal returns the errors of calls that are refused because of their caller or because of a limit.
package refusal

import (
	"fmt"
	"strings"

	"loaderd/internal/auth"
	"loaderd/loader/fault"
)

// Limited returns the error for exceeding a limit.
func Limited(what string, limit int) *fault.Error {
	return &fault.Error{
		Reason: fault.Limited, Message: fmt.Sprintf("%s: at most %d", what, limit),
		Advice: "retry after a delay; close unused connections and streams",
	}
}

// Forbidden returns the error for an identity without the permission.
func Forbidden(who auth.Identity, why string) *fault.Error {
	return &fault.Error{
		Reason:  fault.Forbidden,
		Message: fmt.Sprintf("identity %s lacks permission: %s", who, why),
		Advice:  "use a token with this permission, or have the daemon's operator extend this one (loaderd token)",
		Facts:   map[string]string{"identity": who.String()},
	}
}

// InvalidTicket returns the error for a malformed ticket.
func InvalidTicket(format string, args ...any) error {
	return &fault.Error{Reason: fault.InvalidTicket, Message: fmt.Errorf(format, args...).Error(),
		Advice: `send a JSON object such as {"rank":0,"world":1,"step":0,"columns":["input_ids"]}`}
}

// Excerpt quotes the beginning of client data for use in an error message.
func Excerpt(b []byte) string {
	const most = 60
	if len(b) > most {
		return fmt.Sprintf("%+q...", b[:most])
	}
	return fmt.Sprintf("%+q", b)
}

// Shorten shortens s to at most n bytes of valid UTF-8.
func Shorten(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-3], "") + "..."
}

// Unsupported returns the error for a feature that the server lacks.
func Unsupported(what, instead string) error {
	return &fault.Error{Reason: fault.Unsupported, Message: what, Advice: instead}
}
