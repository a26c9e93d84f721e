package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/event"
	"loaderd/stream/conn"
	"loaderd/stream/proxy"
)

// duplicateWindow is how long the server itself recognises a message id, which it keeps in memory for that time.
// It absorbs a producer's retries. The planner's own window (documents.dedupe) is counted in documents and
// detects later duplicates.
const duplicateWindow = proxy.IDWindow

// SettingsError reports that an existing stream's settings would lose data or do not meet the daemon's needs.
type SettingsError struct {
	Stream string
	Bad    []Setting
}

// Setting is a stream's setting with an unusable value.
type Setting struct {
	Name          string
	Present, Want any
}

func (e *SettingsError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "stream %s exists with settings that the daemon cannot use:", e.Stream)
	for i, s := range e.Bad {
		if i > 0 {
			b.WriteByte(';')
		}
		fmt.Fprintf(&b, " %s is %v, want %v", s.Name, s.Present, s.Want)
	}
	b.WriteString(": " + e.advice())
	return b.String()
}

// advice returns how to resolve the error. A stream must keep its subjects: otherwise existing producers would find
// no stream, and dead letters would get other subjects than the earlier ones.
func (e *SettingsError) advice() string {
	for _, s := range e.Bad {
		subjects, _ := s.Present.([]string)
		if s.Name != "subjects" || len(subjects) != 1 {
			continue
		}
		if subject, below := strings.CutSuffix(subjects[0], ".>"); below {
			return fmt.Sprintf("set stream.subject to %s, as it was; documents on other subjects need another stream and "+
				"another run (stream.name, run)", subject)
		}
	}
	return "change them (nats stream edit), or name another stream and another run (stream.name, run)"
}

// DeadLetterName is the name of the dead-letter stream.
func (c Config) DeadLetterName() string { return c.Name + "_DLQ" }

// DeadLetterSubject returns the subject of the dead letter of a message.
func (c Config) DeadLetterSubject(subject string) string { return deadLetterSubject + "." + subject }

// documentStream keeps every document until it is purged explicitly. A full stream refuses new documents, so
// that producers wait.
func (c Config) documentStream() jetstream.StreamConfig {
	sc := c.logStream(c.Name, c.MaxBytes, c.subjects()...)
	sc.Description = "documents"
	sc.Duplicates = duplicateWindow
	if c.Embedded() {
		sc.MaxMsgSize = int32(c.MaxDocument)
	}
	return sc
}

// deadLetterStream keeps the latest dead letters and drops old ones. A dead letter must never stop a run, and the
// document itself is still in the document stream.
func (c Config) deadLetterStream() jetstream.StreamConfig {
	subjects := c.subjects()
	for i, subject := range subjects {
		subjects[i] = c.DeadLetterSubject(subject)
	}
	sc := c.logStream(c.DeadLetterName(), c.DeadLetterBytes, subjects...)
	sc.Description = "documents that cannot be decoded, with the reason"
	sc.Duplicates = duplicateWindow
	sc.Discard = jetstream.DiscardOld
	return sc
}

// PlanStream returns the settings of the stream of a run's plan, which is kept forever.
func (c Config) PlanStream(run string) jetstream.StreamConfig {
	sc := c.logStream("PLAN_"+run, c.PlanBytes, planSubject+"."+run)
	sc.Description = "plan of run " + run
	sc.DenyDelete, sc.DenyPurge = true, true
	return sc
}

func (c Config) logStream(name string, bytes int64, subjects ...string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               name,
		Subjects:           subjects,
		Retention:          jetstream.LimitsPolicy,
		Discard:            jetstream.DiscardNew,
		Storage:            jetstream.FileStorage,
		MaxBytes:           bytes,
		MaxMsgs:            -1,
		MaxMsgsPerSubject:  -1,
		MaxMsgSize:         -1,
		AllowDirect:        true,
		AllowAtomicPublish: true,
	}
}

// EnsureDocuments returns the document stream. It creates the stream if it does not exist, and returns a
// *SettingsError for an existing one that would lose data.
func (s *Store) EnsureDocuments(ctx context.Context) (jetstream.Stream, error) {
	return s.Ensure(ctx, s.config.documentStream())
}

// EnsureDeadLetters returns the dead-letter stream, as EnsureDocuments does. A full stream drops the oldest letters.
func (s *Store) EnsureDeadLetters(ctx context.Context) (jetstream.Stream, error) {
	return s.Ensure(ctx, s.config.deadLetterStream())
}

// Ensure returns a stream with these settings. It creates the stream if it does not exist, and returns a
// *SettingsError for an existing one whose settings would lose data.
func (s *Store) Ensure(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	var st jetstream.Stream
	err := s.ensure(ctx, "open stream "+want.Name, func(ctx context.Context) (err error) {
		st, err = s.JetStream().Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			st, err = s.create(ctx, want)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	present := st.CachedInfo().Config
	if err := checkSettings(present, want); err != nil {
		return nil, err
	}
	return s.updateBounds(ctx, st, want)
}

// Find returns the stream of a name, or the error missing if none exists. In a cluster, "not found" counts only after
// a while. what describes the stream in the log and in errors.
func (s *Store) Find(ctx context.Context, what, name string, missing error) (st jetstream.Stream, err error) {
	began := time.Now()
	err = s.Retry(ctx, "open "+what, func(ctx context.Context) (err error) {
		st, err = s.JetStream().Stream(ctx, name)
		if err = s.AsTransientAbsence(began, err); errors.Is(err, jetstream.ErrStreamNotFound) && !conn.IsTransient(err) {
			return fmt.Errorf("stream %s: %w", name, missing)
		}
		return err
	})
	return st, err
}

// AsTransientAbsence marks a "stream not found" error as transient for a while after began, the time of the first
// request, because a member of a cluster may be cut off or lag.
func (s *Store) AsTransientAbsence(began time.Time, err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) && s.Clustered() && time.Since(began) < absenceTimeout {
		return conn.AsTransient(err)
	}
	return err
}

// create creates a stream. On an embedded server the disk limits its bound, so that the stream is full before
// the disk.
func (s *Store) create(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	room, err := s.streamBound(want.MaxBytes)
	if err != nil {
		return nil, err
	}
	s.logLowered(want, room)
	want.MaxBytes = min(want.MaxBytes, room)
	var st jetstream.Stream
	err = s.createReplicated(func(copies int) (err error) {
		want.Replicas = copies
		st, err = s.JetStream().CreateStream(ctx, want)
		return err
	})
	if err == nil {
		s.createdStreams.add(want.Name)
	}
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster
		st, err := s.JetStream().Stream(ctx, want.Name)
		return st, transientNotFound(err)
	}
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == conn.CodeSubjectsOverlap {
		return nil, s.overlapError(ctx, err, want.Subjects[0])
	}
	if conn.IsNoSpace(err) {
		return nil, fmt.Errorf("%w: the NATS servers promise each stream its whole bound, and have no room left for %d "+
			"bytes: lower stream.max_bytes, "+
			"stream.dead_letter_bytes or stream.plan_bytes, or let JetStream take more there (max_file_store, the account's "+
			"limits)", err, want.MaxBytes)
	}
	return st, err
}

// overlapError returns the error for a stream whose subjects belong to another stream.
func (s *Store) overlapError(ctx context.Context, err error, subject string) error {
	name, unknown := s.JetStream().StreamNameBySubject(ctx, subject)
	if unknown != nil {
		name = "another stream"
	}
	sources, _ := s.sources(ctx)
	switch {
	case s.config.Source != "":
		return fmt.Errorf("%w: %s takes %s already, as the document stream of runs without sources: give the streams of "+
			"sources other subjects and names "+
			"(stream.subject, stream.name), or name that source otherwise", err, name, subject)
	case len(sources) > 0:
		return fmt.Errorf("%w: %s has streams of sources (%s): publish to one of them (--source), or change stream.name "+
			"and stream.subject", err, subject,
			strings.Join(sources, ", "))
	}
	return fmt.Errorf("%w: %s takes %s already: change stream.name or stream.subject", err, name, subject)
}

// streamBound returns the maximum size of a stream with a bound of wanted bytes: on an embedded server at most half of
// the free disk space, divided among sources.
func (s *Store) streamBound(wanted int64) (int64, error) {
	if s.diskFree == nil {
		return wanted, nil
	}
	free, err := s.diskFree()
	if err != nil {
		return 0, err
	}
	return max(min(wanted, free/2/int64(max(s.config.Shares, 1))), 1<<20), nil
}

// logLowered logs, once per process, that the disk is too small for the bound that the configuration gives a stream. It
// is a warning unless the bound is the default.
func (s *Store) logLowered(want jetstream.StreamConfig, bytes int64) {
	if bytes >= want.MaxBytes {
		return
	}
	if _, logged := s.loweredBounds.LoadOrStore(want.Name, true); logged {
		return
	}
	setting, usual := "stream.plan_bytes", Default().PlanBytes
	switch want.Name {
	case s.config.Name:
		setting, usual = "stream.max_bytes", Default().MaxBytes
	case s.config.DeadLetterName():
		setting, usual = "stream.dead_letter_bytes", Default().DeadLetterBytes
	}
	level := slog.LevelWarn
	if want.MaxBytes == usual {
		level = slog.LevelInfo
	}
	keys := []any{"stream", want.Name, "setting", setting, "configured_bytes", want.MaxBytes, "bytes", bytes}
	if free := s.DiskFree(); free != nil {
		keys = append(keys, "free_bytes", *free)
	}
	s.log.Log(context.Background(), level, "lowered the bound of a stream: the disk has too little space",
		append(keys, event.StreamBoundLowered,
			"do", fmt.Sprintf("free space on the disk and restart the daemon, or set %s to what the disk has space for",
				setting))...)
}

// ConfiguredBound returns the configured bound of the document stream in bytes; 0 for a remote server, whose streams
// keep the bounds that their owner set.
func (s *Store) ConfiguredBound() int64 {
	if s.server == nil {
		return 0
	}
	return s.config.MaxBytes
}

// DiskFree returns the free space on the disk of the embedded server, in bytes; nil if unknown.
func (s *Store) DiskFree() *int64 {
	if s.diskFree == nil {
		return nil
	}
	free, err := s.diskFree()
	if err != nil {
		return nil
	}
	return &free
}

// updateBounds updates the bounds of an embedded server's stream to the configuration, which loses no data. Streams of
// a remote server keep the bounds that their owner set. Streams of a cluster get the configured number of replicas.
func (s *Store) updateBounds(ctx context.Context, st jetstream.Stream,
	want jetstream.StreamConfig) (jetstream.Stream, error) {
	info := st.CachedInfo()
	if s.server == nil {
		return s.replicate(ctx, st), nil
	}
	room, err := s.streamBound(want.MaxBytes)
	if err != nil {
		return nil, err
	}
	present := info.Config
	bytes := max(room, min(want.MaxBytes, present.MaxBytes)) // a disk that filled up meanwhile does not lower the bound
	if want.Discard == jetstream.DiscardOld {
		bytes = max(bytes, int64(info.State.Bytes)) // a lower bound would drop letters immediately
	}
	s.logLowered(want, bytes)
	if present.MaxBytes == bytes && present.MaxMsgSize == want.MaxMsgSize {
		return s.replicate(ctx, st), nil
	}
	present.MaxBytes, present.MaxMsgSize = bytes, want.MaxMsgSize
	var updated jetstream.Stream
	err = s.Retry(ctx, "set bounds of stream "+want.Name, func(ctx context.Context) (err error) {
		updated, err = s.JetStream().UpdateStream(ctx, present)
		return transientNotFound(err)
	})
	if err != nil {
		return nil, fmt.Errorf("set bounds of stream %s to %d bytes: %w", want.Name, bytes, err)
	}
	return s.replicate(ctx, updated), nil
}

// CheckDocuments returns a *SettingsError if the document stream's settings would lose data or do not meet the
// daemon's needs.
func (s *Store) CheckDocuments(is jetstream.StreamConfig) error {
	return checkSettings(is, s.config.documentStream())
}

// checkSettings returns a *SettingsError that lists the settings that would lose data or do not meet the daemon's
// needs.
func checkSettings(is, want jetstream.StreamConfig) error {
	var bad []Setting
	expect := func(ok bool, name string, present, want any) {
		if !ok {
			bad = append(bad, Setting{name, present, want})
		}
	}
	unlimited := func(n int64) bool { return n <= 0 }
	expect(is.Mirror == nil, "mirror", is.Mirror != nil, false)
	expect(slices.Equal(is.Subjects, want.Subjects), "subjects", is.Subjects, want.Subjects)
	expect(is.Retention == want.Retention, "retention", is.Retention, want.Retention)
	expect(is.Discard == want.Discard, "discard", is.Discard, want.Discard)
	expect(is.Storage == want.Storage, "storage", is.Storage, want.Storage)
	expect(is.PersistMode == want.PersistMode, "persist_mode", is.PersistMode, want.PersistMode)
	expect(!is.NoAck, "no_ack", is.NoAck, false)
	expect(is.MaxAge == 0, "max_age", is.MaxAge, "0 (no limit)")
	expect(unlimited(is.MaxMsgs), "max_msgs", is.MaxMsgs, "-1 (no limit)")
	expect(unlimited(is.MaxMsgsPerSubject), "max_msgs_per_subject", is.MaxMsgsPerSubject, "-1 (no limit)")
	expect(!is.AllowRollup, "allow_rollup_hdrs", is.AllowRollup, false)
	expect(!is.AllowMsgTTL, "allow_msg_ttl", is.AllowMsgTTL, false)
	expect(!is.AllowMsgSchedules, "allow_msg_schedules", is.AllowMsgSchedules, false)
	expect(!is.AllowMsgCounter, "allow_msg_counter", is.AllowMsgCounter, false)
	expect(is.AllowDirect, "allow_direct", is.AllowDirect, true)
	expect(is.AllowAtomicPublish, "allow_atomic", is.AllowAtomicPublish, true)
	expect(is.DenyDelete || !want.DenyDelete, "deny_delete", is.DenyDelete, true)
	expect(is.DenyPurge || !want.DenyPurge, "deny_purge", is.DenyPurge, true)
	expect(is.FirstSeq <= 1 || !want.DenyPurge, "first_seq", is.FirstSeq, 1)
	if len(bad) == 0 {
		return nil
	}
	return &SettingsError{want.Name, bad}
}
