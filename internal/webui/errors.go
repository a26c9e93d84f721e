package webui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"loaderd/loader/fault"
)

// Error reasons of the server only, as Flight clients receive them.
const (
	unsupported fault.Reason = "UNSUPPORTED" // unknown path or action
	limited     fault.Reason = "LIMITED"     // too many such calls at present
	internal    fault.Reason = "INTERNAL"    // a failure without a specific reason
)

// statusCode returns the HTTP status of an error.
func statusCode(err error) int {
	var typed *fault.Error
	switch {
	case errors.As(err, &typed):
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
	switch typed.Reason {
	case fault.InvalidToken:
		return http.StatusUnauthorized
	case fault.Forbidden:
		return http.StatusForbidden
	case fault.InvalidTicket:
		return http.StatusBadRequest
	case fault.StepPurged, fault.StepNotPlanned, fault.DocumentLost, unsupported:
		return http.StatusNotFound
	case limited:
		return http.StatusTooManyRequests
	case fault.RunMismatch, fault.RunReplaced, fault.PlanMismatch, fault.StreamMismatch, fault.PlanForeign,
		fault.PlanTruncated, fault.WorldMismatch, fault.WorldConflict:
		return http.StatusConflict
	case internal, fault.RunFailed:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable // all other errors are temporary
}

// encodeError encodes an error for the caller. The text of an untyped error may contain paths or addresses, so it is
// replaced by a general message.
func encodeError(err error) []byte {
	var typed *fault.Error
	if !errors.As(err, &typed) {
		typed = &fault.Error{Reason: internal, Message: "the daemon failed to answer", Advice: "look at its log"}
		if errors.Is(err, context.DeadlineExceeded) {
			typed = &fault.Error{Reason: fault.NotLeading, Message: "the daemon took too long to answer", Advice: "ask again"}
		}
	}
	b, err := json.Marshal(typed)
	if err != nil {
		panic(err) // contains only strings
	}
	return b
}

// writeError sends an error response.
func writeError(w http.ResponseWriter, err error) {
	code := statusCode(err)
	switch code {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(encodeError(err), '\n')) // no error handling: the client is gone
}

func badRequest(what, do string) error {
	return &fault.Error{Reason: fault.InvalidTicket, Message: what, Advice: do}
}
