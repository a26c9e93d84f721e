package action

import (
	"context"
	"maps"
	"slices"

	"loaderd/arrowout/internal/caller"
	"loaderd/internal/api"
	"loaderd/internal/auth"
	"loaderd/loader"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// hasMixtureChange reports whether the action mix requests a change, and not only the present state.
func (q requestBody) hasMixtureChange() bool {
	return len(q.change.Weights) > 0 || len(q.change.Add) > 0 || len(q.change.Remove) > 0
}

// mix changes the mixture, or reports what a change would do, or the present state.
func (h *Handler) mix(ctx context.Context, q requestBody, send func(any) error) error {
	info := h.run.Info()
	if (q.decided != nil || q.requestID != "") && (q.dryRun || !q.hasMixtureChange()) {
		return invalidBodyError("mix", "decided and request_id need a change that is applied",
			`send "weights", "add" or "remove" as well, and no "dry_run"`)
	}
	answer := api.MixResponse{Run: info.Run, Step: info.Planned, DryRun: q.dryRun, ShareUnit: info.Config.Mix.Share}
	if !q.hasMixtureChange() {
		if q.dryRun {
			return invalidBodyError("mix", "dry_run without a change", `send "weights", "add" or "remove" as well`)
		}
		now := h.run.Stats().Sources
		if len(now) == 0 {
			return &fault.Error{Reason: fault.NotLeading, Message: "no daemon that plans the run has reported its mixture yet",
				Advice: "ask again"}
		}
		if err := h.describeMixture(ctx, info, now, &answer); err != nil {
			return err
		}
		return send(answer)
	}
	for name, s := range q.change.Add {
		if _, said := q.change.Weights[name]; !said && s.Weight == 0 {
			return invalidBodyError("mix", "source "+name+" is added without a weight",
				`give it a "weight"; "weights" may give it 0`)
		}
	}
	x, err := h.run.Mix(ctx, state.MixRequest{Change: q.change, By: caller.Identity(ctx).Name, Request: q.requestID,
		Decided: q.decided, DryRun: q.dryRun})
	if err != nil {
		return err
	}
	answer.Step, answer.AlreadyApplied, answer.Target = x.Step, x.Duplicate, targetShares(x.Weights)
	return send(answer)
}

func invalidBodyError(action, what, do string) error {
	return &fault.Error{Reason: fault.InvalidTicket, Message: "body of action " + action + ": " + what, Advice: do}
}

// targetShares returns the shares that weights amount to.
func targetShares(weights map[string]float64) map[string]float64 {
	sum, out := 0.0, map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		sum += weights[name]
	}
	for name, w := range weights {
		out[name] = w / sum
	}
	return out
}

// recentSteps is the number of steps over which recent shares are computed.
const recentSteps = 100

// describeMixture reports the state of the mixture: shares, and the remaining documents of each source.
func (h *Handler) describeMixture(ctx context.Context, info loader.Info, now []state.SourceStats,
	answer *api.MixResponse) error {
	stock, err := h.run.StreamStates(ctx)
	if err != nil {
		return err
	}
	recent, steps, err := recentTokens(ctx, h.run, info)
	if err != nil {
		return err
	}
	var tokens, taken, emitted int64
	for _, x := range now {
		tokens += x.Status.Tokens
		taken += x.SharedTokens()
	}
	for _, n := range recent {
		emitted += n
	}
	answer.Tokens, answer.RecentSteps, answer.Target = tokens, steps, map[string]float64{}
	for i, x := range now {
		m := api.MixtureSource{Name: x.Name, Target: x.Target, Tokens: x.Status.Tokens, LossTokens: x.LossTokens,
			Share: ratio(x.SharedTokens(), taken), Recent: ratio(recent[i], emitted),
			Epoch: x.Epoch, Epochs: x.Epochs, Paused: x.Paused, Removed: x.Removed, Sealed: x.Sealed, Exhausted: x.Exhausted}
		if !x.Removed {
			answer.Target[x.Name] = x.Target
		}
		if i < len(stock) && i < len(info.Sources) {
			documents, endless := remainingDocuments(x, info.Sources[i].Start, stock[i].Last)
			m.RemainingDocuments, m.Endless = documents, endless
			if x.Arrived > 0 && x.Share > 0 && emitted > 0 && !endless {
				left := float64(documents) * float64(x.SharedTokens()) / float64(x.Arrived)
				n := int64(left / (x.Share * float64(emitted) / float64(steps)))
				m.RemainingSteps = &n
			}
		}
		answer.Sources = append(answer.Sources, m)
	}
	return nil
}

func ratio(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// recentTokens counts the tokens of each source in the last readable steps, in the unit of the shares. It also returns
// the number of these steps.
func recentTokens(ctx context.Context, r Steps, info loader.Info) (tokens map[int]int64, steps int, err error) {
	tokens = map[int]int64{}
	for i := info.Planned - min(info.Planned, recentSteps); i < info.Planned; i++ {
		step, err := r.Step(ctx, i)
		if err != nil {
			return nil, 0, err
		}
		steps++
		if step.SourceLossTokens != nil {
			for source, n := range step.SourceLossTokens {
				tokens[source] += n
			}
			continue
		}
		for _, row := range step.Rows {
			for _, p := range row {
				tokens[plan.RefSource(p.Doc)] += int64(p.Length)
			}
		}
	}
	return tokens, steps, nil
}

// remainingDocuments counts the documents of a source that are stored and not yet taken. Once the source is sealed it
// includes those of later epochs. endless reports that the source repeats without end.
func remainingDocuments(x state.SourceStats, first, last uint64) (documents int64, endless bool) {
	if x.Removed || x.Exhausted {
		return 0, false
	}
	if x.Sealed {
		last = x.Last
	}
	all := int64(last+1) - int64(first)
	documents = max(all-int64(x.Taken), 0)
	switch {
	case !x.Sealed || x.Epochs == 1:
	case x.Epochs == mixture.Forever:
		return documents, true
	default:
		documents += (int64(x.Epochs) - 1 - int64(x.Epoch)) * all
	}
	return documents, false
}

// isQuery reports whether an action that can change a run changes nothing with this body.
func (a Action) isQuery(q requestBody) bool {
	switch a.Name {
	case "mix":
		return !q.hasMixtureChange()
	case "filter":
		return q.where == nil
	case "schedule":
		return len(q.phases) == 0
	}
	return false
}

// requiredRole returns the role that an action requires. Every role may view filters, schedules and mixtures. A change
// requires the role operate, or for a mixture train if that is configured.
func (h *Handler) requiredRole(a Action, q requestBody) auth.Role {
	switch {
	case a.isQuery(q):
		return auth.Read
	case a.Name == "mix" && h.trainMayMix:
		return auth.Train
	}
	return a.Role
}

// costOf returns the cost of an action with this body.
func (a Action) costOf(q requestBody) cost {
	switch {
	case a.Name == "resize" && q.report.rank == 0: // one rank per record: all ranks repeat their requests
		return costRecord
	case !a.isQuery(q):
		return a.cost
	case a.Name == "mix":
		return costSearch
	}
	return costLow
}
