package planview

import (
	"fmt"
	"strconv"

	"loaderd/loader/fault"
)

// StepPurgedError returns the error for a step whose documents were purged.
func StepPurgedError(step, oldest uint64) error {
	return &fault.Error{Reason: fault.StepPurged,
		Message: fmt.Sprintf("the documents of step %d are released: every job had committed it", step),
		Advice: fmt.Sprintf(
			"ask for step %d or a later one; to read old steps again, commit later or set serve.retention to keep", oldest),
		Facts: map[string]string{"step": strconv.FormatUint(step, 10), "oldest": strconv.FormatUint(oldest, 10)}}
}
