// Package streamcopy copies a stream to other servers by JetStream's snapshots, and compares the copy with the
// original.
package streamcopy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
)

// maxSnapshotChunk is the largest part of a snapshot in one message, in bytes. snapshotTimeout bounds the wait for the
// next part.
const (
	maxSnapshotChunk = 256 << 10
	snapshotTimeout  = 30 * time.Second
)

// Copy copies a stream to other servers by a JetStream snapshot. The copy has the same sequences and gaps, times,
// subjects, headers and payloads. edit changes the settings of the copy. Consumers are not copied. The copy appears
// completely or not at all; nothing is left of an interrupted one after 5 s. progress is called with the bytes of
// every part. Copy makes one attempt.
func Copy(ctx context.Context, from, to *conn.Client, name string, edit func(*jetstream.StreamConfig),
	progress func(bytes int)) error {
	inbox := from.Conn().NewRespInbox()
	parts, err := from.Conn().SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer parts.Unsubscribe() //nolint:errcheck // fails only on a closed connection
	if err := parts.SetPendingLimits(-1, -1); err != nil {
		return err
	}
	chunk := min(maxSnapshotChunk, from.Conn().MaxPayload(), to.Conn().MaxPayload())
	var taken struct {
		Config jetstream.StreamConfig `json:"config"`
		State  json.RawMessage        `json:"state"`
	}
	if err := requestJSON(ctx, from, from.API("STREAM.SNAPSHOT", name),
		map[string]any{"deliver_subject": inbox, "no_consumers": true, "chunk_size": chunk}, &taken); err != nil {
		return fmt.Errorf("take a snapshot of stream %s: %w", name, err)
	}
	edit(&taken.Config)
	var put struct {
		Subject string `json:"deliver_subject"`
	}
	if err := requestJSON(ctx, to, to.API("STREAM.RESTORE", name),
		map[string]any{"config": taken.Config, "state": taken.State},
		&put); err != nil {
		return fmt.Errorf("make a copy of stream %s: %w", name, err)
	}
	for {
		part, err := nextPart(ctx, parts)
		if err != nil {
			return fmt.Errorf("read the snapshot of stream %s: %w", name, err)
		}
		var answer struct{}
		if err := requestJSON(ctx, to, put.Subject, part.Data, &answer); err != nil {
			return fmt.Errorf("write the copy of stream %s: %w", name, err)
		}
		if len(part.Data) == 0 { // the end
			return nil
		}
		progress(len(part.Data))
		if part.Reply == "" { // the last one
			continue
		}
		if err := part.Respond(nil); err != nil {
			return err
		}
	}
}

// nextPart returns the next part of a snapshot, and an empty one after the last.
func nextPart(ctx context.Context, parts *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	part, err := parts.NextMsgWithContext(ctx)
	if err != nil {
		return nil, err
	}
	if status := part.Header.Get("Status"); len(part.Data) == 0 && status != "" && status != "204" {
		return nil, conn.AsTransient(fmt.Errorf("the server answers %s %s", status, part.Header.Get("Description")))
	}
	return part, nil
}

// requestJSON sends a request, as JSON unless it is bytes already, and reads the response, which may be empty.
func requestJSON(ctx context.Context, c *conn.Client, subject string, question, answer any) error {
	data, raw := question.([]byte)
	if !raw {
		var err error
		if data, err = json.Marshal(question); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	reply, err := c.Conn().RequestWithContext(ctx, subject, data)
	if err != nil || len(reply.Data) == 0 {
		return err
	}
	var refused struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := errors.Join(json.Unmarshal(reply.Data, &refused), json.Unmarshal(reply.Data, answer)); err != nil {
		return fmt.Errorf("%w: %.100q", jetstream.ErrInvalidJetStreamResponse, reply.Data)
	}
	if refused.Error != nil {
		return refused.Error
	}
	return nil
}
