package flightclient

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"

	"loaderd/internal/api"
	"loaderd/loader"
)

// Seal ends a run at the present last document of the document stream. Here and below, an empty run is the one that
// the daemon serves.
func (c *Client) Seal(ctx context.Context, run string) (api.RecordResponse, error) {
	return c.controlRecord(ctx, "seal", run)
}

// SealSource ends one source at the present last document of its stream.
func (c *Client) SealSource(ctx context.Context, run, source string) (recorded api.RecordResponse, err error) {
	err = eachResult(ctx, c, "seal", api.SealRequest{Run: api.Run{Run: run}, Source: source}, func(r api.RecordResponse) {
		recorded = r
	})
	return recorded, err
}

// Mix changes the mixture of sources. Without a change it returns the present state of the mixture.
func (c *Client) Mix(ctx context.Context, run string, change api.MixChange) (m api.MixResponse, err error) {
	err = eachResult(ctx, c, "mix", api.MixRequest{Run: api.Run{Run: run}, MixChange: change}, func(r api.MixResponse) {
		m = r
	})
	return m, err
}

// Filter changes a filter. Without an expression it returns the filters in effect.
func (c *Client) Filter(ctx context.Context, change api.FilterRequest) (f api.FilterResponse, err error) {
	err = eachResult(ctx, c, "filter", change, func(r api.FilterResponse) { f = r })
	return f, err
}

// Schedule replaces the phases of the steps that have not begun. Without phases it returns the present schedule.
func (c *Client) Schedule(ctx context.Context, run string, phases []map[string]any,
	dryRun bool) (s api.ScheduleResponse, err error) {
	q := api.ScheduleRequest{Run: api.Run{Run: run}, Phases: phases, DryRun: dryRun}
	if len(phases) > 0 && !dryRun {
		q.RequestID = rand.Text()
	}
	err = eachResult(ctx, c, "schedule", q, func(r api.ScheduleResponse) { s = r })
	return s, err
}

// Info returns the description of the run.
func (c *Client) Info(ctx context.Context, run string) (info loader.Info, err error) {
	err = eachResult(ctx, c, "info", api.Run{Run: run}, func(i loader.Info) { info = i })
	return info, err
}

// Status returns the present state of the run, History its course.
func (c *Client) Status(ctx context.Context, run string) (status api.Status, err error) {
	err = eachResult(ctx, c, "status", api.Run{Run: run}, func(s api.Status) { status = s })
	return status, err
}

// History returns the recent history of a run.
func (c *Client) History(ctx context.Context, run string) (history api.History, err error) {
	err = eachResult(ctx, c, "history", api.Run{Run: run}, func(h api.History) { history = h })
	return history, err
}

// Measure starts to count the steps that the run will have. Info returns the result.
func (c *Client) Measure(ctx context.Context, run string) error {
	return eachResult(ctx, c, "measure", api.Run{Run: run}, func(api.MeasureResponse) {})
}

// Flush flushes buffered documents up to the present last document of the document stream.
func (c *Client) Flush(ctx context.Context, run string) (api.RecordResponse, error) {
	return c.controlRecord(ctx, "flush", run)
}

func (c *Client) controlRecord(ctx context.Context, action, run string) (recorded api.RecordResponse, err error) {
	err = eachResult(ctx, c, action, api.Run{Run: run}, func(r api.RecordResponse) { recorded = r })
	return recorded, err
}

// Ledger calls f with the pages of steps, in order.
func (c *Client) Ledger(ctx context.Context, q api.LedgerRequest, f func(api.LedgerPage)) error {
	return eachResult(ctx, c, "ledger", q, f)
}

// FindID returns the rows that contain a part of a document with this id or path, none if no step does. It searches
// all sources of the run.
func (c *Client) FindID(ctx context.Context, run, id string) ([]api.FoundRow, error) {
	return c.find(ctx, api.FindRequest{Run: api.Run{Run: run}, ID: id})
}

// FindSequence is FindID for the document at a sequence of the stream, in a run with several sources of that source's
// stream.
func (c *Client) FindSequence(ctx context.Context, run, source string, sequence uint64) ([]api.FoundRow, error) {
	return c.find(ctx, api.FindRequest{Run: api.Run{Run: run}, Source: source, Sequence: sequence})
}

func (c *Client) find(ctx context.Context, body api.FindRequest) ([]api.FoundRow, error) {
	found := []api.FoundRow{}
	err := eachResult(ctx, c, "find", body, func(f api.FoundRow) { found = append(found, f) })
	return found, err
}

// Text returns up to tokens of a document's tokens from start on, each with its text. If tokens is 0, the daemon
// chooses the number. source is empty in a run with one document stream.
func (c *Client) Text(ctx context.Context, run, source string, sequence, start uint64,
	tokens int) (text api.DocumentText, err error) {
	err = eachResult(ctx, c, "text", api.TextRequest{Run: api.Run{Run: run}, Source: source, Sequence: sequence,
		Start:  start,
		Tokens: tokens}, func(t api.DocumentText) { text = t })
	return text, err
}

// Peek returns the beginnings of the next documents to be planned, tokens tokens each. It returns n documents of a
// source; without a source, n of the only source or the next document of each source. If a number is 0, the daemon
// chooses it.
func (c *Client) Peek(ctx context.Context, run, source string, n, tokens int) (texts []api.DocumentText, err error) {
	err = eachResult(ctx, c, "peek", api.PeekRequest{Run: api.Run{Run: run}, Source: source, Documents: n, Tokens: tokens},
		func(t api.DocumentText) { texts = append(texts, t) })
	return texts, err
}

// eachResult requests an action and calls f with every result.
func eachResult[T any](ctx context.Context, c *Client, action string, body any, f func(T)) error {
	return c.DoEach(ctx, action, body, func(b []byte) error {
		var answer T
		if err := json.Unmarshal(b, &answer); err != nil {
			return fmt.Errorf("decode the daemon's answer: %w", err)
		}
		f(answer)
		return nil
	})
}
