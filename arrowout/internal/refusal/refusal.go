// Package refusal makes the errors of calls that are refused for who calls, or for how many there are.
package refusal

import (
	"fmt"

	"loaderd/internal/access"
	"loaderd/loader/fault"
)

// Limited refuses what exceeds a limit at this moment.
func Limited(what string, limit int) *fault.Error {
	return &fault.Error{
		Reason: fault.Limited, Message: fmt.Sprintf("%s: at most %d", what, limit),
		Do: "wait a little and ask again; close what is not used",
	}
}

// Forbidden refuses what an identity may not do.
func Forbidden(who access.Identity, why string) *fault.Error {
	return &fault.Error{
		Reason:  fault.Forbidden,
		Message: fmt.Sprintf("identity %s may not do this: %s", who, why),
		Do:      "ask with a token that may, or have whoever operates the daemon change what this one may (loaderd token)",
		Facts:   map[string]string{"identity": who.String()},
	}
}
