package planlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
	"loaderd/stream/mac"
)

// positionBytes returns a record's position in the form that its MAC covers.
func positionBytes(position uint64) []byte { return strconv.AppendUint(nil, position, 10) }

// macBinding is what the plan's header states about MACs, once it has been read.
type macBinding struct {
	id    string // of the run
	keyed bool
}

// parseBinding reads what the first record of the plan states about MACs. It refuses a plan with MACs if this process
// has no keys, and refuses to write to a plan without MACs if this process has keys.
func (l *Log) parseBinding(record []byte, code string) (*macBinding, error) {
	e, err := planrecord.Decode(record)
	h, ok := e.(planrecord.Header)
	switch {
	case err != nil || !ok:
		if len(l.keys) > 0 {
			return nil, l.foreignRecordError(1)
		}
		return &macBinding{}, nil // the caller that decodes it reports what is wrong with it
	case h.Keyed && len(l.keys) == 0:
		return nil, l.keyMismatchError("was begun with a plan key, and this process has none",
			"set stream.plan_key_file to the file with the key of the run")
	case !h.Keyed && len(l.keys) > 0 && !l.readOnly:
		return nil, l.keyMismatchError("was begun without a plan key, and this process has one",
			"leave stream.plan_key_file out, or begin a run or a fork with it")
	case h.Keyed && !l.keys.VerifyHex(code, mac.Record, l.run, []byte(h.ID), positionBytes(1), record):
		return nil, l.foreignRecordError(1)
	}
	return &macBinding{h.ID, h.Keyed}, nil
}

func (l *Log) keyMismatchError(message, do string) error {
	return &fault.Error{Reason: fault.PlanMismatch, Message: fmt.Sprintf("run %s %s", l.run, message), Advice: do,
		Facts: map[string]string{"run": l.run}}
}

// foreignRecordError is the error of a record whose MAC is missing or not made with any of the keys.
func (l *Log) foreignRecordError(position uint64) error {
	return &fault.Error{Reason: fault.PlanForeign,
		Message: fmt.Sprintf("record %d of the plan of run %s has no code of a key in %s: none of the run's daemons wrote it",
			position, l.run,
			l.store.Config().PlanKeyFile),
		Advice: "give the file with all keys that the run was written with; if it has them, determine which client can " +
			"write to the plan's stream and stop it (docs/explanation/security.md), then copy the records before it to a " +
			"usable plan with loaderd run repair",
		Facts: map[string]string{"run": l.run, "record": strconv.FormatUint(position, 10)}}
}

// readBinding returns what the plan's header states about MACs.
func (l *Log) readBinding(ctx context.Context) (*macBinding, error) {
	if b := l.binding.Load(); b != nil {
		return b, nil
	}
	m, err := l.readMessage(ctx, 1)
	if err != nil {
		if len(l.keys) == 0 && !errors.Is(err, ctx.Err()) {
			return &macBinding{}, nil // for a plan whose first record is damaged
		}
		return nil, err
	}
	b, err := l.parseBinding(m.Data, m.Header.Get(mac.Header))
	if err == nil {
		l.binding.Store(b)
	}
	return b, err
}

// verifyRecord refuses a record that none of the run's daemons wrote, if the plan has MACs.
func (l *Log) verifyRecord(ctx context.Context, position uint64, record []byte, code string) error {
	if position == 1 {
		_, err := l.parseBinding(record, code)
		return err
	}
	b, err := l.readBinding(ctx)
	if err != nil || !b.keyed {
		return err
	}
	if !l.keys.VerifyHex(code, mac.Record, l.run, []byte(b.id), positionBytes(position), record) {
		return l.foreignRecordError(position)
	}
	return nil
}

// recordMACs returns the MACs of records that will follow position last, nil for a plan without MACs.
func (l *Log) recordMACs(ctx context.Context, last uint64, records [][]byte) ([]string, error) {
	if len(records) == 0 || len(l.keys) == 0 {
		return nil, nil
	}
	var b *macBinding
	var err error
	if last > 0 {
		b, err = l.readBinding(ctx)
	} else {
		e, _ := planrecord.Decode(records[0])
		h, _ := e.(planrecord.Header)
		if b = (&macBinding{h.ID, h.Keyed}); !h.Keyed {
			err = l.keyMismatchError("is to begin without a plan key, and this process has one", "report it")
		}
	}
	if err != nil || !b.keyed {
		return nil, err
	}
	codes := make([]string, len(records))
	for i, r := range records {
		codes[i] = l.keys.ComputeHex(mac.Record, l.run, []byte(b.id), positionBytes(last+1+uint64(i)), r)
	}
	return codes, nil
}

// Keyed reports whether a plan that this log starts gets MACs.
func (l *Log) Keyed() bool { return len(l.keys) > 0 }

// AppendMAC returns a checkpoint with its MAC for the given name appended. It returns data unchanged if the plan has
// no MACs.
func (l *Log) AppendMAC(ctx context.Context, name string, data []byte) ([]byte, error) {
	if len(l.keys) == 0 {
		return data, nil
	}
	b, err := l.readBinding(ctx)
	if err != nil || !b.keyed {
		return data, err
	}
	return append(data[:len(data):len(data)], l.keys.Compute(mac.Checkpoint, l.run, []byte(b.id), []byte(name),
		data)...), nil
}

// errInvalidMAC reports that no daemon of the run stored a checkpoint under its name.
var errInvalidMAC = errors.New("it has no code of a key of the run: none of its daemons stored it under this name")

// StripMAC verifies the MAC of a checkpoint that Seal returned, and returns the checkpoint without it.
func (l *Log) StripMAC(ctx context.Context, name string, data []byte) ([]byte, error) {
	if len(l.keys) == 0 {
		return data, nil
	}
	b, err := l.readBinding(ctx)
	if err != nil || !b.keyed {
		return data, err
	}
	n := len(data) - mac.Size
	if n < 0 || !l.keys.Verify(data[n:], mac.Checkpoint, l.run, []byte(b.id), []byte(name), data[:n]) {
		return nil, errInvalidMAC
	}
	return data[:n:n], nil
}
