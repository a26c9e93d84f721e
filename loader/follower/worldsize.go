package follower

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"loaderd/loader/fault"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
)

// CheckWorldSize returns an error for a world size that does not divide the rows of the steps from a step on, in every
// bucket and phase. The *fault.Error lists valid sizes.
func CheckWorldSize(s runconfig.Schedule, step uint64, world int) error {
	phases := s.PhasesFrom(step)
	shared := 0 // the greatest common divisor
	for i := range phases {
		shared = runconfig.GCD(shared, phases[i].Divisor())
	}
	if shared > 0 && shared%world == 0 {
		return nil
	}
	at := slices.IndexFunc(phases, func(p runconfig.ScheduledPhase) bool { return p.Divisor()%world != 0 })
	rows := phases[at].StepRows
	has := fmt.Sprintf("the %d rows of a step", rows[0])
	if slices.Min(rows) < slices.Max(rows) {
		has = fmt.Sprintf("the rows of a step, %v by its bucket,", rows)
	}
	if len(s.Phases) > 1 {
		has += " in " + s.PhaseName(len(s.Phases)-len(phases)+at)
	}
	return worldMismatch(world, shared, has)
}

// CheckStepRows returns an error for a step whose rows a world size does not divide.
func CheckStepRows(s *plan.Step, world int) error {
	if len(s.Rows)%world == 0 {
		return nil
	}
	return worldMismatch(world, len(s.Rows), fmt.Sprintf("the %d rows of step %d", len(s.Rows), s.Index))
}

// worldMismatch returns the error for ranks that cannot share rows; the divisors of shared are valid world sizes.
func worldMismatch(world, shared int, rows string) error {
	fits := formatDivisors(shared)
	return &fault.Error{Reason: fault.WorldMismatch,
		Message: fmt.Sprintf("%d ranks cannot share %s equally", world, rows),
		Advice: "use one of these world sizes: " + fits +
			"; or other steps.rows, steps.tokens, steps.table or steps.schedule in a new run",
		Facts: map[string]string{"world": strconv.Itoa(world), "rows": strconv.Itoa(shared), "divisors": fits}}
}

// formatDivisors lists the divisors of n in ascending order; if more than 32, without those in the middle.
func formatDivisors(n int) string {
	var low, high []string
	for d := 1; d*d <= n; d++ {
		if n%d != 0 {
			continue
		}
		low = append(low, strconv.Itoa(d))
		if d*d != n {
			high = append([]string{strconv.Itoa(n / d)}, high...)
		}
	}
	if len(low)+len(high) > 32 {
		low, high = low[:16], append([]string{"..."}, high[len(high)-16:]...)
	}
	return strings.Join(append(low, high...), " ")
}
