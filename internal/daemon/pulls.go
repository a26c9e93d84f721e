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

// pullerSet are the sources that daemons fill from object stores. All daemons of all runs are candidates for each
// source; one of them fills it.
type pullerSet struct {
	pullers  []*pulling.Puller
	bySource map[string]*pulling.Puller // by source
}

// pulledSources returns the names of pulled sources, sorted.
func pulledSources(c config.Config) (names []string) {
	for name, from := range c.PullPatterns() {
		if len(from) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// pullDestination returns the stream of a source, and the last part of the subject of its documents.
func (d *Daemon) pullDestination(c config.Config, name string) (docs *stream.Store, subject string) {
	docs = d.store.Source(name, len(c.Plan.Sources))
	if docs == d.store {
		return docs, pulledSubject
	}
	return docs, name
}

// permissionTasks returns the tasks of this daemon that need additional permissions.
func (d *Daemon) permissionTasks(c config.Config) permissions.Tasks {
	does := permissions.Tasks{Purges: c.Serve.Retention == "purge"}
	for _, name := range pulledSources(c) {
		docs, source := d.pullDestination(c, name)
		does.Pulls = append(does.Pulls, permissions.Pull{Documents: docs, Subject: pulling.Subject(docs, source),
			Seals: c.Pull.Follow == 0})
	}
	return does
}

// newPulls returns the pulled sources. It starts no pull.
func (d *Daemon) newPulls(ctx context.Context, c config.Config, self lease.LeaderInfo,
	log *slog.Logger) (*pullerSet, error) {
	p := &pullerSet{bySource: map[string]*pulling.Puller{}}
	streams := c.PullPatterns()
	for _, name := range pulledSources(c) {
		docs, source := d.pullDestination(c, name)
		o := pulling.Options{Source: source, DisplayName: name, From: streams[name], Follow: c.Pull.Follow, Log: log,
			ReadSettings: pulling.ReadSettings{Format: corpus.Format(c.Pull.Format), TextField: c.Pull.TextColumn,
				IDField:  c.Pull.IDColumn,
				Tokens:   c.Tokenizer.Name == config.TokenizerNone,
				Encoding: c.Pull.Encoding, CSVQuoting: c.Pull.CSVQuoting, CSVEscape: c.Pull.CSVEscape,
				SkipInvalid:  c.Pull.SkipInvalid,
				SkipTooLarge: c.Pull.SkipTooLarge},
			OnComplete: func(ctx context.Context, _ uint64) (err error) {
				_, err = d.run.SealSource(ctx, name, "")
				return err
			}}
		if o.ReadSettings.Tokens {
			o.Fingerprint = c.Tokenizer.Fingerprint
		}
		puller, err := pulling.New(ctx, docs, self, o)
		if err != nil {
			return nil, err
		}
		p.pullers, p.bySource[name] = append(p.pullers, puller), puller
	}
	return p, nil
}

// serve pulls documents until ctx ends.
func (p *pullerSet) serve(ctx context.Context) {
	var all sync.WaitGroup
	for _, x := range p.pullers {
		all.Go(func() { x.Serve(ctx) })
	}
	all.Wait()
}

// status returns the progress of all pulled sources.
func (p *pullerSet) status() (out []pulling.Status) {
	if p == nil {
		return nil
	}
	for _, x := range p.pullers {
		out = append(out, x.Status())
	}
	return out
}

// apiStatus returns the same progress in the form of the API.
func (p *pullerSet) apiStatus() (out []api.PullStatus) {
	for _, s := range p.status() {
		out = append(out, api.PullStatus(s))
	}
	return out
}

// pullBlockage returns why a pulled source delivers no documents and what the operator can do, for a run that waits for
// them. ok is false for a source that is not pulled.
func (p *pullerSet) pullBlockage(source string) (why, do string, ok bool) {
	if p == nil || p.bySource[source] == nil {
		return "", "", false
	}
	why, do = p.bySource[source].Status().Sentence()
	return why, do, true
}
