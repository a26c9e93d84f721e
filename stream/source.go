package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
	"loaderd/stream/messages"
)

// OnlySource is the name of the document stream as the only source of a run, derived from its subject.
func (c Config) OnlySource() string { return strings.ReplaceAll(c.Subject, ".", "-") }

// OfSource returns the configuration of one of several sources of a run. Its documents are in a separate stream,
// DOCS_web with subjects docs.web and docs.web.>. The sources share the buffer.
func (c Config) OfSource(name string, sources int) Config {
	c.Source, c.Shares = name, max(sources, 1)
	c.Name += "_" + name
	c.Subject += "." + name
	c.BufferBytes = max(c.BufferBytes/int64(c.Shares), minSourceBuffer)
	return c
}

// minSourceBuffer is the minimum buffer of a source in bytes. A larger document is read alone.
const minSourceBuffer = 1 << 20

// subjects returns the subjects of the document stream.
func (c Config) subjects() []string {
	if c.Source == "" {
		return []string{c.Subject + ".>"}
	}
	return []string{c.Subject, c.Subject + ".>"}
}

// Source returns the store of the documents of one of several sources, over the same connections. The only source
// uses the document stream.
func (s *Store) Source(name string, sources int) *Store {
	if name == s.config.OnlySource() {
		return s
	}
	x := &Store{Client: s.Client, config: s.config.OfSource(name, sources), log: s.log.With("source", name),
		server: s.server, diskFree: s.diskFree, account: s.account,
		loweredBounds: s.loweredBounds, own: s.own, keys: s.keys}
	if x.own == nil {
		x.own = s
	}
	return x
}

// PermitProducers permits producers to publish to the streams of these sources of the embedded server too.
func (s *Store) PermitProducers(sources ...string) error {
	if s.server == nil {
		return nil
	}
	c := s.config
	c.Sources = sources
	return s.server.PermitRequests(c.producerRequests())
}

// SourceOf returns the store of the source whose stream accepts documents of <subject>.<source>, or the store itself
// if one stream accepts all documents.
func (s *Store) SourceOf(ctx context.Context, source string) (*Store, error) {
	of := s.Source(source, 1)
	var name string
	err := s.Retry(ctx, "look for the stream of source "+source, func(ctx context.Context) (err error) {
		name, err = s.JetStream().StreamNameBySubject(ctx, of.config.Subject)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case name == of.config.Name:
		return of, nil
	case name != "":
		return s, nil
	}
	var others []string
	err = s.Retry(ctx, "list the sources", func(ctx context.Context) (err error) {
		others, err = s.sources(ctx)
		return err
	})
	if err == nil && len(others) > 0 {
		err = &NoSourceError{source, others}
	}
	return s, err
}

// NoSourceError reports that sources have separate streams, and that Source has none.
type NoSourceError struct {
	Source   string
	Existing []string // sources that have streams
}

func (e *NoSourceError) Error() string {
	return fmt.Sprintf("no stream takes documents of source %s: there are sources %s; name one of them (--source), or "+
		"add it to a run first",
		e.Source, strings.Join(e.Existing, ", "))
}

// sources returns the names of the sources that have streams.
func (s *Store) sources(ctx context.Context) (names []string, err error) {
	list := s.JetStream().StreamNames(ctx, jetstream.WithStreamListSubject(s.config.Subject+".>"))
	for name := range list.Name() {
		if source, of := strings.CutPrefix(name, s.config.Name+"_"); of {
			names = append(names, source)
		}
	}
	slices.Sort(names)
	return names, list.Err()
}

// sealedKey is the key of a document stream's metadata that holds the sequence of its last document.
const sealedKey = "loaderd.sealed"

// Sealed returns the last document of a sealed stream.
func Sealed(c jetstream.StreamConfig) (last uint64, sealed bool) {
	last, err := strconv.ParseUint(c.Metadata[sealedKey], 10, 64)
	return last, err == nil
}

// SealDocuments records in the document stream that its current last document is final: no run reads beyond it. It
// returns that document's sequence. Idempotent.
func (s *Store) SealDocuments(ctx context.Context) (last uint64, err error) {
	err = s.Retry(ctx, "seal stream "+s.config.Name, func(ctx context.Context) error {
		st, err := s.JetStream().Stream(ctx, s.config.Name)
		if err != nil {
			return err
		}
		info, err := st.Info(ctx)
		if err != nil {
			return err
		}
		if !messages.HasLeader(info) {
			return conn.AsTransient(errors.New("the stream has no leader"))
		}
		var sealed bool
		if last, sealed = Sealed(info.Config); sealed {
			return nil
		}
		last = info.State.LastSeq
		c := info.Config
		c.Metadata = maps.Clone(c.Metadata)
		if c.Metadata == nil {
			c.Metadata = map[string]string{}
		}
		c.Metadata[sealedKey] = strconv.FormatUint(last, 10)
		_, err = s.JetStream().UpdateStream(ctx, c)
		return transientNotFound(err)
	})
	return last, err
}
