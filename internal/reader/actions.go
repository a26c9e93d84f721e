package reader

import (
	"context"
	"encoding/json"
	"fmt"

	"loaderd/arrowout/answers"
	"loaderd/loader"
)

// Seal ends a run behind the document stream's present last document. An empty run is the one that the daemon serves, here and below.
func (c *Client) Seal(ctx context.Context, run string) (answers.Recorded, error) {
	return c.record(ctx, "seal", run)
}

// SealSource ends one source of a run with several behind its stream's present last document.
func (c *Client) SealSource(ctx context.Context, run, source string) (recorded answers.Recorded, err error) {
	err = each(ctx, c, "seal", struct {
		ofRun
		Source string `json:"source"`
	}{ofRun{run}, source}, func(r answers.Recorded) { recorded = r })
	return recorded, err
}

// MixChange changes a mixture of sources; docs/wire.md says what the keys mean. The zero value changes nothing.
type MixChange struct {
	Weights map[string]float64         `json:"weights,omitempty"` // of some sources; the others keep their present shares as weights
	Add     map[string]json.RawMessage `json:"add,omitempty"`     // configurations of sources, as they stand in a configuration file
	Remove  []string                   `json:"remove,omitempty"`
	DryRun  bool                       `json:"dry_run,omitempty"`
}

// Mix changes the mixture of a run with several sources, or asks how it stands.
func (c *Client) Mix(ctx context.Context, run string, change MixChange) (m answers.Mixture, err error) {
	err = each(ctx, c, "mix", struct {
		ofRun
		MixChange
	}{ofRun{run}, change}, func(r answers.Mixture) { m = r })
	return m, err
}

// Info describes the run.
func (c *Client) Info(ctx context.Context, run string) (info loader.Info, err error) {
	err = each(ctx, c, "info", ofRun{run}, func(i loader.Info) { info = i })
	return info, err
}

// Status says how the run does, History how it went.
func (c *Client) Status(ctx context.Context, run string) (status answers.Status, err error) {
	err = each(ctx, c, "status", ofRun{run}, func(s answers.Status) { status = s })
	return status, err
}

func (c *Client) History(ctx context.Context, run string) (history answers.History, err error) {
	err = each(ctx, c, "history", ofRun{run}, func(h answers.History) { history = h })
	return history, err
}

// Measure has it counted how many steps the run will have; Info tells.
func (c *Client) Measure(ctx context.Context, run string) error {
	return each(ctx, c, "measure", ofRun{run}, func(answers.Measured) {})
}

// Drain packs what waits up to the document stream's present last document.
func (c *Client) Drain(ctx context.Context, run string) (answers.Recorded, error) {
	return c.record(ctx, "drain", run)
}

func (c *Client) record(ctx context.Context, action, run string) (recorded answers.Recorded, err error) {
	err = each(ctx, c, action, ofRun{run}, func(r answers.Recorded) { recorded = r })
	return recorded, err
}

// Ledger calls f with the pages of a step, in order; with documents, each has where its documents came from.
func (c *Client) Ledger(ctx context.Context, run string, step uint64, documents bool, f func(answers.Page)) error {
	return each(ctx, c, "ledger", struct {
		ofRun
		Step      uint64 `json:"step"`
		Documents bool   `json:"documents,omitempty"`
	}{ofRun{run}, step, documents}, f)
}

// FindID returns the rows that hold a part of a document that has this id or path; none when no step does. Of a run with several sources it looks in all
// of them.
func (c *Client) FindID(ctx context.Context, run, id string) ([]answers.Found, error) {
	return c.find(ctx, struct {
		ofRun
		ID string `json:"id"`
	}{ofRun{run}, id})
}

// FindSequence is FindID of the document at a sequence of the stream: that of the source, in a run with several.
func (c *Client) FindSequence(ctx context.Context, run, source string, sequence uint64) ([]answers.Found, error) {
	return c.find(ctx, struct {
		ofRun
		Source   string `json:"source,omitempty"`
		Sequence uint64 `json:"sequence"`
	}{ofRun{run}, source, sequence})
}

func (c *Client) find(ctx context.Context, body any) ([]answers.Found, error) {
	found := []answers.Found{}
	err := each(ctx, c, "find", body, func(f answers.Found) { found = append(found, f) })
	return found, err
}

// Text returns a document's tokens from start on, at most so many (0: as many as the daemon gives), each with what it stands for. source is empty in a run with
// one document stream.
func (c *Client) Text(ctx context.Context, run, source string, sequence, start uint64, tokens int) (text answers.Text, err error) {
	err = each(ctx, c, "text", struct {
		ofRun
		Source   string `json:"source,omitempty"`
		Sequence uint64 `json:"sequence"`
		Start    uint64 `json:"start,omitempty"`
		Tokens   int    `json:"tokens,omitempty"`
	}{ofRun{run}, source, sequence, start, tokens}, func(t answers.Text) { text = t })
	return text, err
}

// Peek returns the beginnings, of so many tokens, of the next documents that are planned: n of a source, or without one those of the one stream, or the next
// of each source. 0 leaves a number to the daemon.
func (c *Client) Peek(ctx context.Context, run, source string, n, tokens int) (texts []answers.Text, err error) {
	err = each(ctx, c, "peek", struct {
		ofRun
		Source    string `json:"source,omitempty"`
		Documents int    `json:"documents,omitempty"`
		Tokens    int    `json:"tokens,omitempty"`
	}{ofRun{run}, source, n, tokens}, func(t answers.Text) { texts = append(texts, t) })
	return texts, err
}

// ofRun is the part of an action's body that names the run.
type ofRun struct {
	Run string `json:"run,omitempty"`
}

// each asks for an action and calls f with every answer.
func each[T any](ctx context.Context, c *Client, action string, body any, f func(T)) error {
	return c.Results(ctx, action, body, func(b []byte) error {
		var answer T
		if err := json.Unmarshal(b, &answer); err != nil {
			return fmt.Errorf("decode the daemon's answer: %w", err)
		}
		f(answer)
		return nil
	})
}
