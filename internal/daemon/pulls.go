package daemon

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/corpus"
	"loaderd/internal/pulling"
	"loaderd/stream"
	"loaderd/stream/lease"
	"loaderd/stream/permissions"
)

// pulledSubject is the last part of the subject of documents that are pulled into the document stream.
const pulledSubject = "pulled"

// pulls are the sources that daemons fill from object stores. All daemons of all runs are candidates for each source;
// one of them fills it.
type pulls struct {
	all []*pulling.Puller
	of  map[string]*pulling.Puller // by source
}

// pulled returns the names of pulled sources, sorted.
func pulled(c config.Config) (names []string) {
	for name, from := range c.Pulled() {
		if len(from) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// pulledInto returns the stream of a source, and the last part of the subject of its documents.
func (d *Daemon) pulledInto(c config.Config, name string) (docs *stream.Store, subject string) {
	docs = d.store.Source(name, len(c.Plan.Sources))
	if docs == d.store {
		return docs, pulledSubject
	}
	return docs, name
}

// doing returns the tasks of this daemon that need additional permissions.
func (d *Daemon) doing(c config.Config) permissions.Tasks {
	does := permissions.Tasks{Purges: c.Serve.Release == "purge"}
	for _, name := range pulled(c) {
		docs, source := d.pulledInto(c, name)
		does.Pulls = append(does.Pulls, permissions.Pull{Documents: docs, Subject: pulling.Subject(docs, source),
			Seals: c.Pull.Follow == 0})
	}
	return does
}

// newPulls returns the pulled sources. It starts no pull.
func (d *Daemon) newPulls(ctx context.Context, c config.Config, self lease.LeaderInfo,
	log *slog.Logger) (*pulls, error) {
	p := &pulls{of: map[string]*pulling.Puller{}}
	streams := c.Pulled()
	for _, name := range pulled(c) {
		docs, source := d.pulledInto(c, name)
		o := pulling.Options{Source: source, Shown: name, From: streams[name], Follow: c.Pull.Follow, Log: log,
			How: pulling.How{Format: corpus.Format(c.Pull.Format), TextField: c.Pull.TextColumn, IDField: c.Pull.IDColumn,
				Tokens:   c.Tokenizer.Name == config.TokenizerNone,
				Encoding: c.Pull.Encoding, CSVQuoting: c.Pull.CSVQuoting, CSVEscape: c.Pull.CSVEscape, SkipBad: c.Pull.SkipBad,
				SkipTooLarge: c.Pull.SkipTooLarge},
			OnComplete: func(ctx context.Context, _ uint64) (err error) {
				_, err = d.run.SealSource(ctx, name, "")
				return err
			}}
		if o.How.Tokens {
			o.Fingerprint = c.Tokenizer.Fingerprint
		}
		puller, err := pulling.New(ctx, docs, self, o)
		if err != nil {
			return nil, err
		}
		p.all, p.of[name] = append(p.all, puller), puller
	}
	return p, nil
}

// serve pulls documents until ctx ends.
func (p *pulls) serve(ctx context.Context) {
	var all sync.WaitGroup
	for _, x := range p.all {
		all.Go(func() { x.Serve(ctx) })
	}
	all.Wait()
}

// status returns the progress of all pulled sources.
func (p *pulls) status() (out []pulling.Status) {
	if p == nil {
		return nil
	}
	for _, x := range p.all {
		out = append(out, x.Status())
	}
	return out
}

// answers returns the same progress in the form of the API.
func (p *pulls) answers() (out []api.PullStatus) {
	for _, s := range p.status() {
		out = append(out, api.PullStatus(s))
	}
	return out
}

// supply returns why a pulled source delivers no documents and what the operator can do, for a run that waits for
// them. ok is false for a source that is not pulled.
func (p *pulls) supply(source string) (why, do string, ok bool) {
	if p == nil || p.of[source] == nil {
		return "", "", false
	}
	why, do = p.of[source].Status().Sentence()
	return why, do, true
}
