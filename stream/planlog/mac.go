package planlog

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"loaderd/loader"
	"loaderd/loader/plan"
)

// macHeader is the header of a record, or of a word between daemons, with its message authentication code in hexadecimal digits. The record's
// bytes stay as they are without one.
const macHeader = "Loaderd-Mac"

// macBytes is the length of a code: the first half of an HMAC-SHA256.
const macBytes = 16

// keyring makes and checks codes. The first key makes them, any verifies. Without a key there are no codes.
type keyring [][]byte

// What codes are for: one that was made for one thing is none for another.
const (
	macRecord     = "record"
	macCheckpoint = "checkpoint"
	macWord       = "word"
	macStatus     = "status"
	macQuestion   = "question"
	macAnswer     = "answer"
)

// mac is the code of the parts of a thing of a run: HMAC-SHA256 over what it is for and each part, with their lengths before them.
func mac(key []byte, what, run string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	var length [8]byte
	for _, p := range append([][]byte{[]byte("loaderd " + what), []byte(run)}, parts...) {
		binary.LittleEndian.PutUint64(length[:], uint64(len(p)))
		_, _ = h.Write(length[:])
		_, _ = h.Write(p)
	}
	return h.Sum(nil)[:macBytes]
}

func (k keyring) make(what, run string, parts ...[]byte) []byte {
	return mac(k[0], what, run, parts...)
}

func (k keyring) verifies(code []byte, what, run string, parts ...[]byte) bool {
	for _, key := range k {
		if hmac.Equal(code, mac(key, what, run, parts...)) {
			return true
		}
	}
	return false
}

// text and read are a code as it travels in a header.
func (k keyring) text(what, run string, parts ...[]byte) string {
	return hex.EncodeToString(k.make(what, run, parts...))
}

func (k keyring) read(text, what, run string, parts ...[]byte) bool {
	code, err := hex.DecodeString(text)
	return err == nil && k.verifies(code, what, run, parts...)
}

// place is a record's position as it stands in its code.
func place(position uint64) []byte { return strconv.AppendUint(nil, position, 10) }

// bound is what the header of the plan says of its codes, once it has been read.
type bound struct {
	id    string // of the run
	keyed bool
}

// binds reads what the first record of the plan says of codes. It refuses a plan that this process has not the keys for, and to write one
// without them.
func (l *Log) binds(record []byte, code string) (*bound, error) {
	e, err := plan.DecodeRecord(record)
	h, ok := e.(plan.Header)
	switch {
	case err != nil || !ok:
		if len(l.keys) > 0 {
			return nil, l.stranger(1)
		}
		return &bound{}, nil // what is wrong with it is for whoever reads it to say
	case h.Keyed && len(l.keys) == 0:
		return nil, l.wrongKey("was begun with a plan key, and this process has none", "set stream.plan_key_file to the file with the key of the run")
	case !h.Keyed && len(l.keys) > 0 && !l.readOnly:
		return nil, l.wrongKey("was begun without a plan key, and this process has one", "leave stream.plan_key_file out, or begin a run or a fork with it")
	case h.Keyed && !l.keys.read(code, macRecord, l.run, []byte(h.ID), place(1), record):
		return nil, l.stranger(1)
	}
	return &bound{h.ID, h.Keyed}, nil
}

func (l *Log) wrongKey(message, do string) error {
	return &loader.Error{Reason: loader.PlanMismatch, Message: fmt.Sprintf("run %s %s", l.run, message), Do: do, Facts: map[string]string{"run": l.run}}
}

// stranger is the error of a record whose code is missing, or is none of the keys'.
func (l *Log) stranger(position uint64) error {
	return &loader.Error{Reason: loader.PlanForeign,
		Message: fmt.Sprintf("record %d of the plan of run %s has no code of a key in %s: none of the run's daemons wrote it", position, l.run,
			l.store.Config().PlanKeyFile),
		Do: "give the file with all keys that the run was written with; if it has them, find out who can write to the plan's stream and stop them " +
			"(docs/security.md), then copy what stands before that record into a usable plan with loaderd repair",
		Facts: map[string]string{"run": l.run, "record": strconv.FormatUint(position, 10)}}
}

// bound returns what the plan's header says of codes.
func (l *Log) bound(ctx context.Context) (*bound, error) {
	if b := l.binding.Load(); b != nil {
		return b, nil
	}
	m, err := l.message(ctx, 1)
	if err != nil {
		if len(l.keys) == 0 && !errors.Is(err, ctx.Err()) {
			return &bound{}, nil // of a plan that is damaged there
		}
		return nil, err
	}
	b, err := l.binds(m.Data, m.Header.Get(macHeader))
	if err == nil {
		l.binding.Store(b)
	}
	return b, err
}

// authentic refuses a record that none of the run's daemons wrote, where the plan has codes.
func (l *Log) authentic(ctx context.Context, position uint64, record []byte, code string) error {
	if position == 1 {
		_, err := l.binds(record, code)
		return err
	}
	b, err := l.bound(ctx)
	if err != nil || !b.keyed {
		return err
	}
	if !l.keys.read(code, macRecord, l.run, []byte(b.id), place(position), record) {
		return l.stranger(position)
	}
	return nil
}

// codes are those of records that are to follow position last, nil for a plan without.
func (l *Log) codes(ctx context.Context, last uint64, records [][]byte) ([]string, error) {
	if len(records) == 0 || len(l.keys) == 0 {
		return nil, nil
	}
	var b *bound
	var err error
	if last > 0 {
		b, err = l.bound(ctx)
	} else {
		e, _ := plan.DecodeRecord(records[0])
		h, _ := e.(plan.Header)
		if b = (&bound{h.ID, h.Keyed}); !h.Keyed {
			err = l.wrongKey("is to begin without a plan key, and this process has one", "report it")
		}
	}
	if err != nil || !b.keyed {
		return nil, err
	}
	codes := make([]string, len(records))
	for i, r := range records {
		codes[i] = l.keys.text(macRecord, l.run, []byte(b.id), place(last+1+uint64(i)), r)
	}
	return codes, nil
}

// Keyed reports whether what this log begins gets codes.
func (l *Log) Keyed() bool { return len(l.keys) > 0 }

// seal appends its code to a checkpoint that is to be stored under a name, where the plan has codes.
func (l *Log) seal(ctx context.Context, name string, data []byte) ([]byte, error) {
	if len(l.keys) == 0 {
		return data, nil
	}
	b, err := l.bound(ctx)
	if err != nil || !b.keyed {
		return data, err
	}
	return append(data[:len(data):len(data)], l.keys.make(macCheckpoint, l.run, []byte(b.id), []byte(name), data)...), nil
}

// errSealed says that a checkpoint is none that a daemon of the run stored under its name.
var errSealed = errors.New("it has no code of a key of the run: none of its daemons stored it under this name")

// unseal checks what seal made, and returns the checkpoint.
func (l *Log) unseal(ctx context.Context, name string, data []byte) ([]byte, error) {
	if len(l.keys) == 0 {
		return data, nil
	}
	b, err := l.bound(ctx)
	if err != nil || !b.keyed {
		return data, err
	}
	n := len(data) - macBytes
	if n < 0 || !l.keys.verifies(data[n:], macCheckpoint, l.run, []byte(b.id), []byte(name), data[:n]) {
		return nil, errSealed
	}
	return data[:n:n], nil
}
