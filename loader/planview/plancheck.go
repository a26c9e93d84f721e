package planview

import (
	"context"
	"fmt"
	"strings"

	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
)

// ReadHeaderRecord returns the first record of a plan, decoded and as bytes. The plan must have one.
func ReadHeaderRecord(ctx context.Context, log backend.PlanLog) (h planrecord.Header, record []byte, err error) {
	if record, err = log.Get(ctx, 1); err != nil {
		return h, nil, fmt.Errorf("read plan header: %w", err)
	}
	e, err := planrecord.Decode(record)
	if err != nil {
		return h, nil, err
	}
	h, ok := e.(planrecord.Header)
	if !ok {
		return h, nil, fmt.Errorf("read plan header: record 1 is of kind %d", e.Kind())
	}
	return h, record, nil
}

// CheckPlan returns a PLAN_MISMATCH error for a plan that this binary or configuration would continue differently. It
// reads only the first record and changes nothing, so a daemon calls it before it creates or changes anything for the
// run.
func CheckPlan(ctx context.Context, log backend.PlanLog, c runconfig.Config) error {
	last, err := log.Last(ctx)
	if err != nil {
		return fmt.Errorf("read plan log: %w", err)
	}
	if last == 0 {
		return nil
	}
	h, _, err := ReadHeaderRecord(ctx, log)
	if err != nil {
		return err
	}
	return CheckHeader(c.Canonical(), h)
}

// AlgorithmMismatch returns the message that another version of the planner made the plan.
func AlgorithmMismatch(h planrecord.Header) string {
	return fmt.Sprintf("run %s was planned by algorithm version %d, this binary has version %d", h.Run, h.Algorithm,
		planner.AlgorithmVersion)
}

// CheckHeader returns a PLAN_MISMATCH error for a plan that this configuration or binary would continue differently.
func CheckHeader(c runconfig.Config, h planrecord.Header) error {
	mismatch := func(message, do string) error {
		return &fault.Error{Reason: fault.PlanMismatch, Message: message, Advice: do,
			Facts: map[string]string{"plan_fingerprint": h.Fingerprint, "fingerprint": c.Fingerprint()}}
	}
	if h.Algorithm != planner.AlgorithmVersion {
		return mismatch(AlgorithmMismatch(h), "continue it with the binary that began it, or begin a new run")
	}
	if h.Fingerprint != c.Fingerprint() {
		return mismatch(fmt.Sprintf("run %s was planned with another configuration: %s", h.Run,
			strings.Join(h.Config.Differences(c), "; ")),
			"restore the configuration or choose another run name")
	}
	return nil
}

// UnfinishedCopyError returns the error for an incomplete copy.
func UnfinishedCopyError(c *planrecord.Repair, run string, records uint64) error {
	was := c.PreviousNames[len(c.PreviousNames)-1]
	return &fault.Error{Reason: fault.PlanTruncated,
		Message: fmt.Sprintf("run %s is a copy of run %s that was broken off: it has %d of %d records", run, was, records,
			c.Records),
		Advice: fmt.Sprintf("finish it: loaderd run repair --run %s --new %s", was, run)}
}

// DescribeEntry returns a short description of an entry.
func DescribeEntry(e planrecord.Entry) string {
	if s, ok := e.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("record of kind %d", e.Kind())
}
