package ledger

import (
	"context"
	"fmt"

	"loaderd/internal/api"
	"loaderd/internal/flightclient"
)

// ReadStep requests a step from a daemon. If documents is set, the step contains the origins of its documents.
func ReadStep(ctx context.Context, c *flightclient.Client, run string, step uint64, documents bool) (Step, error) {
	var s Step
	q := api.LedgerRequest{Run: api.Run{Run: run}, Step: step, Documents: documents}
	err := c.Ledger(ctx, q, func(page api.LedgerPage) { s.AddPage(page) })
	return s, err
}

// Steps of one request: a daemon reads the documents of described steps from the stream.
const (
	stepsPerRequest     = 256
	describedPerRequest = 32
)

// readSteps calls f with the steps from begin to end, without end, in order. It requests several at once.
func readSteps(ctx context.Context, c *flightclient.Client, run string, begin, end uint64, documents bool,
	f func(Step)) error {
	most := uint64(stepsPerRequest)
	if documents {
		most = describedPerRequest
	}
	for ; begin < end; begin += most {
		q := api.LedgerRequest{Run: api.Run{Run: run}, Step: begin, Steps: min(most, end-begin), Documents: documents}
		s := Step{Step: api.Step{Index: begin}}
		err := c.Ledger(ctx, q, func(page api.LedgerPage) {
			if page.Index != s.Index { // the first page of the next step
				f(s)
				s = Step{}
			}
			s.AddPage(page)
		})
		if err != nil {
			return err
		}
		f(s)
	}
	return nil
}

// Decoder converts token ids to text. Decode is for the beginning of a document, DecodePart for later parts.
// *tokenizer.Model implements it.
type Decoder interface {
	Decode(out []byte, ids []int32) ([]byte, error)
	DecodePart(out []byte, ids []int32) ([]byte, error)
}

// ReadTexts sets the text of every piece of the step. It reads the tokens like a rank and decodes them.
func (s *Step) ReadTexts(ctx context.Context, c *flightclient.Client, d Decoder) error {
	first := 0 // row of the step with which a batch begins
	ticket := api.Ticket{Run: s.Run, Step: s.Index, Steps: 1, Columns: []string{"input_ids", "documents"}}
	return c.Read(ctx, ticket, func(b flightclient.Batch) error {
		for i, pieces := range b.Documents {
			if err := s.decodeRow(first+i, b.InputIDs[i*b.L:], pieces, d); err != nil {
				return err
			}
		}
		first += len(b.Documents)
		return nil
	})
}

// decodeRow sets the texts of a row's pieces. ids begin with the row's tokens.
func (s *Step) decodeRow(row int, ids []int32, pieces []api.Piece, d Decoder) error {
	for k, p := range pieces {
		if row >= len(s.Rows) || k >= len(s.Rows[row]) {
			return fmt.Errorf("step %d: row %d holds more than the ledger names", s.Index, row)
		}
		decode := d.DecodePart
		if p.Start == 0 {
			decode = d.Decode
		}
		text, err := decode(nil, ids[:p.Length])
		if err != nil {
			return fmt.Errorf("step %d row %d: %w", s.Index, row, err)
		}
		s.Rows[row][k].Text = &Text{text}
		ids = ids[p.Length:]
	}
	return nil
}
