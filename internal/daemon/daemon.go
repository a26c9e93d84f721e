// Package daemon wires the parts of one process together: streams, tokenizer, run, Flight server, metrics.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/attribute"

	"loaderd/arrowout"
	"loaderd/internal/access"
	"loaderd/internal/build"
	"loaderd/internal/config"
	"loaderd/internal/connlimit"
	"loaderd/internal/event"
	"loaderd/internal/status"
	"loaderd/internal/tracing"
	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/planrecord"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/stream/checkpoints"
	"loaderd/stream/daemonbus"
	"loaderd/stream/deadletter"
	"loaderd/stream/doclog"
	"loaderd/stream/lease"
	"loaderd/stream/permissions"
	"loaderd/stream/planlog"
	"loaderd/stream/runstate"
)

// Daemon is a running daemon.
type Daemon struct {
	config  config.Config
	log     *slog.Logger
	store   *stream.Store
	elector *lease.Elector
	docs    letters
	dead    *deadletter.Tallies
	run     *loader.Run
	flight  *arrowout.Server
	watch   *status.Watch
	http    *httpServer
	metrics *prometheus.Registry
	pulls   *pulls
	pulled  chan struct{}   // closed when no stream is filled any more; nil before one is
	tracer  *tracing.Tracer // nil: no document is traced

	stopping atomic.Bool
	again    chan struct{} // asks for certificates, tokens and identities to be read again

	stopRun context.CancelFunc
	unbound func()        // ends what bounds the memory
	served  chan struct{} // closed when the run has ended; nil before it has begun
	result  error         // of the run; read after served
	ended   chan struct{} // closed when the run or a server has ended
	err     error         // why; read after ended
}

// Start brings everything up and returns when readers can connect. ctx bounds the start only.
func Start(ctx context.Context, c config.Config, log *slog.Logger) (_ *Daemon, err error) {
	began := time.Now()
	self := Self()
	events := status.NewEvents(self.Name())
	log = slog.New(events.Handler(log.Handler()))
	fitDescriptors(&c, connlimit.Descriptors(), log)
	d := &Daemon{config: c, log: log, dead: deadletter.NewTallies(), metrics: prometheus.NewRegistry(),
		again: make(chan struct{}, 1), ended: make(chan struct{}), stopRun: func() {},
		unbound: boundMemory(c)}
	defer func() {
		if err != nil {
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Shutdown.Timeout)
			defer cancel()
			if d.store != nil {
				err = errors.Join(err, d.store.Withdraw(stop))
			}
			err = errors.Join(err, d.close(stop))
		}
	}()
	tokens, err := d.openTokens(ctx, self.Name())
	if err != nil {
		return nil, err
	}
	if err = d.openStore(ctx, self); err != nil {
		return nil, err
	}
	steps, err := d.openRun(ctx, self, tokens)
	if err != nil {
		return nil, err
	}
	if err = d.openServers(self.Name(), events, steps, tokens.Text); err != nil {
		return nil, err
	}
	// Nothing of a new run is written before all else is up: a start that fails leaves no trace of its configuration.
	d.serve(context.WithoutCancel(ctx))
	log.Info("ready", event.DaemonReady, "run", c.Run, "flight", d.FlightURI(), "nats", d.store.ClientURL(), "http",
		d.http.url(), "after",
		time.Since(began).Round(time.Millisecond))
	return d, nil
}

// openTokens opens the tokenizer, and the tracer of its documents, and completes the configuration by the tokenizer.
func (d *Daemon) openTokens(ctx context.Context, name string) (doclog.Tokenizing, error) {
	tokens, err := Documents(&d.config, d.log)
	if err != nil {
		return tokens, err
	}
	tokens.Hints = d.config.Plan.Packing.Related()
	if d.config.Trace.Endpoint == "" {
		return tokens, nil
	}
	d.tracer, err = tracing.New(ctx, d.config.Trace, "loaderd", d.log, attribute.String("loaderd.run", d.config.Run),
		attribute.String("service.instance.id", name))
	if err == nil {
		tokens.Tracer = d.tracer
	}
	return tokens, err
}

// openStore connects to the streams. It checks that this daemon has the permissions that it needs, and that its
// configuration is that of the run.
func (d *Daemon) openStore(ctx context.Context, self lease.LeaderInfo) (err error) {
	c := &d.config
	if d.store, err = stream.Open(ctx, c.Stream, d.log); err != nil {
		return err
	}
	if c.Flight.OwnToken, err = ownToken(d.store, c); err != nil {
		return err
	}
	if !c.Stream.Embedded() {
		if err := permissions.Check(ctx, d.store, c.Run, d.doing(*c)); err != nil {
			return err
		}
	}
	if err := checkPlan(ctx, d.store, c.Run, c.Plan); err != nil {
		return err
	}
	if d.store.Own() != d.store { // producers may make nothing themselves
		if _, err := d.store.EnsureRecords(ctx); err != nil {
			return err
		}
	}
	d.elector, err = runstate.NewElector(ctx, d.store, c.Run, self)
	return err
}

// openRun opens this daemon's part in the run, and what fills its streams, and returns the log of its plan.
func (d *Daemon) openRun(ctx context.Context, self lease.LeaderInfo, tokens doclog.Tokenizing) (*planlog.Log, error) {
	c := d.config
	steps, err := planlog.Open(ctx, d.store, c.Run)
	if err != nil {
		return nil, err
	}
	of := &sources{store: d.store, plan: steps, tokens: tokens.Shared(c.Stream.Workers), config: c.Plan, dead: d.dead}
	d.docs = of
	edges := backend.Backends{Log: d.log, Elector: d.elector, Bus: daemonbus.New(d.store, c.Run), Daemon: self.Name(),
		Plan: steps, Keyed: steps.Keyed(), Sources: of}
	if d.tracer != nil {
		edges.Tracer = d.tracer
	}
	edges.Connection = func() backend.Connection { return connection(d.store.Status()) }
	edges.Supply = func(source string) (why, do string, ok bool) { return d.pulls.supply(source) }
	if d.pulls, err = d.newPulls(ctx, c, self, d.log); err != nil {
		return nil, err
	}
	if edges.Checkpoints, err = checkpoints.Open(ctx, steps); err != nil {
		return nil, err
	}
	d.run, err = loader.Open(ctx, c.Run, c.Plan, c.Serve, edges)
	return steps, err
}

// openServers makes the servers of Flight and HTTP, registers the metrics, and starts the Flight server.
func (d *Daemon) openServers(name string, events *status.Events, steps *planlog.Log,
	texts func(dst []byte, id int32) []byte) (err error) {
	c := d.config
	d.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	ours := prometheus.WrapRegistererWith(prometheus.Labels{"run": c.Run}, d.metrics)
	if d.flight, err = arrowout.NewServer(c.Flight, arrowout.Serving(d.run), d.log, ours); err != nil {
		return err
	}
	d.flight.ShowTexts(texts)
	if d.http, err = listenHTTP(c.HTTP, d); err != nil {
		return err
	}
	for what, r := range d.reloaders() {
		ours.MustRegister(expiry(what, r))
	}
	if d.tracer != nil {
		d.flight.Trace(d.tracer)
	}
	d.watch = d.newWatch(name, events, steps)
	d.flight.Watch(d.watch)
	if err := d.flight.Start(); err != nil {
		return err
	}
	ours.MustRegister(runMetrics{d.run, d.docs}, pullMetrics{d.pulls}, deadLetterMetrics{d.dead},
		rankMetrics{d.flight.Traffic, d.run.Ranks, func() planrecord.Keepers { return d.run.Info().Keepers }},
		daemonMetrics{d.run.Leads, d.watch.Term, d.run.Verdict}, buildInfo(build.This()))
	return nil
}

// serve begins the run and all that accompanies it.
func (d *Daemon) serve(ctx context.Context) {
	d.run.ServesAt(d.advertised())
	d.elector.ServesAt(d.advertised())
	ctx, d.stopRun = context.WithCancel(ctx)
	d.served = make(chan struct{})
	go func() {
		defer close(d.served)
		d.result = d.run.Serve(ctx)
	}()
	d.pulled = make(chan struct{})
	go func() {
		defer close(d.pulled)
		d.pulls.serve(ctx)
	}()
	d.http.start()
	go access.Watch(ctx, d.log, d.again, d.reloaders())
	go d.watch.Serve(ctx)
	go d.dead.Follow(ctx)
	go progress(ctx, d.log.With("run", d.config.Run), d.config.Log.Progress, d.run.Stats)
	go d.waitForEnd()
}

// checkPlan refuses a plan that this daemon would continue differently, before anything of the run is created or
// changed. A server of a cluster may not know of the plan yet: loader.Open checks again.
func checkPlan(ctx context.Context, store *stream.Store, run string, c runconfig.Config) error {
	steps, err := planlog.OpenPresent(ctx, store, run)
	if errors.Is(err, planlog.ErrNoPlan) {
		return nil
	}
	if err == nil {
		err = planview.CheckPlan(ctx, steps, c)
	}
	var refused *fault.Error
	if errors.As(err, &refused) && refused.Reason == fault.PlanMismatch {
		err = cmp.Or(checkStreams(ctx, store, c), err)
	}
	if err != nil {
		return fmt.Errorf("open run %s: %w", run, err)
	}
	return nil
}

// checkStreams returns the *stream.SettingsError of a document stream that the daemon cannot use, if there is one.
// Another stream.subject changes the plan's sources as well, and the error about the stream contains the value to set.
func checkStreams(ctx context.Context, own *stream.Store, c runconfig.Config) error {
	for name := range c.Sources {
		store := own.Source(name, len(c.Sources))
		documents := store.Config().Name
		st, err := store.Find(ctx, "stream "+documents, documents, doclog.ErrNoStream)
		if err == nil {
			err = store.CheckDocuments(st.CachedInfo().Config)
		}
		if settings := (*stream.SettingsError)(nil); errors.As(err, &settings) {
			return settings
		}
	}
	return nil
}

// ownToken is the token of the data folder where callers have to have it, else nil: on loopback any user of the machine
// reaches the daemon.
func ownToken(store *stream.Store, c *config.Config) (*access.KeptToken, error) {
	if !c.Flight.AsksOwnToken() {
		return nil, nil
	}
	const instead = "say who is let in (flight.identities, flight.token_file), or set flight.insecure: true"
	if c.Stream.Dir == "" {
		return nil, errors.New("stream.dir: want a folder for the token of Flight, also with streams elsewhere; or " +
			instead)
	}
	if err := os.MkdirAll(c.Stream.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the token of Flight (stream.dir): %w; or %s", err, instead)
	}
	own := store.FlightToken()
	_, err := own.Read()
	return &own, err
}

// Self describes this process as a leader.
func Self() lease.LeaderInfo {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return lease.NewLeaderInfo(host, os.Getpid())
}

// Reload reads certificates, tokens and identities again, which also happens by itself when their files change.
func (d *Daemon) Reload() {
	select {
	case d.again <- struct{}{}:
	default:
	}
}

// Limit takes the limits of a configuration, and nothing else of it: those of Flight, but for connections.
func (d *Daemon) Limit(c config.Config) {
	d.flight.Limit(c.Flight)
	d.log.Info("limits are set", "max_streams", c.Flight.MaxStreams, "max_streams_of_one", c.Flight.MaxStreamsOfOne,
		"max_keepers_of_one", c.Flight.MaxKeepersOfOne,
		"send_bytes", c.Flight.SendBytes, "slow_reader", c.Flight.SlowReader)
}

// reloaders are what is read again while the daemon runs.
func (d *Daemon) reloaders() map[string]access.Reloader {
	all := map[string]access.Reloader{"flight certificate": d.flight.Certificates(), "identities": d.flight.Gate(),
		"http certificate": d.http.certificates}
	maps.Copy(all, d.store.Reloaders())
	return all
}

// waitForEnd waits for the first part that ends.
func (d *Daemon) waitForEnd() {
	defer close(d.ended)
	select {
	case <-d.served:
		d.err = d.result
	case err := <-d.flight.Ended():
		if err != nil {
			d.err = fmt.Errorf("serve flight: %w", err)
			return
		}
		<-d.served // it was shut down, which ends the run next
		d.err = d.result
	case err := <-d.http.ended:
		d.err = fmt.Errorf("serve http: %w", err)
	}
}

// Wait blocks until the run or a server has failed, or the daemon is stopped.
func (d *Daemon) Wait() error {
	<-d.ended
	return d.err
}

// Stop ends the daemon gracefully within ctx: readers are told, what was planned is stored.
func (d *Daemon) Stop(ctx context.Context) error {
	d.stopping.Store(true)
	return d.close(ctx)
}

// close ends what has been started: readers first, who are told why, then the run, the store last.
func (d *Daemon) close(ctx context.Context) (err error) {
	defer d.unbound()
	d.tell(ctx)
	if d.flight != nil {
		readers, cancel := half(ctx) // one that does not read must not take the time that the run needs
		d.flight.Shutdown(readers)
		cancel()
	}
	d.stopRun()
	if d.served != nil {
		select {
		case <-d.served:
		case <-ctx.Done():
			err = errors.Join(err, fmt.Errorf("stop run: %w", ctx.Err()))
		}
	}
	if d.pulled != nil {
		select {
		case <-d.pulled:
		case <-ctx.Done():
			err = errors.Join(err, fmt.Errorf("stop reading object stores: %w", ctx.Err()))
		}
	}
	if d.http != nil {
		err = errors.Join(err, d.http.shutdown(ctx))
	}
	if d.elector != nil {
		err = errors.Join(err, d.elector.Close())
	}
	if d.tracer != nil {
		d.tracer.Close(ctx)
	}
	if d.store != nil {
		err = errors.Join(err, d.store.Close())
	}
	return err
}

// farewell bounds how long a daemon whose run has failed waits for readers to hear of it.
const farewell = time.Second

// tell waits until the readers of a run that has failed have the cause: once Flight stops, all that they hear is that
// it stops.
func (d *Daemon) tell(ctx context.Context) {
	select {
	case <-d.served:
	default:
		return
	}
	if d.result == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if len(d.run.Stats().Readers) == 0 {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// half ends at half the time that ctx has left.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(end)/2)
	}
	return context.WithCancel(ctx)
}

// Run is the run that the daemon serves.
func (d *Daemon) Run() *loader.Run { return d.run }

// Store is the daemon's connection to JetStream.
func (d *Daemon) Store() *stream.Store { return d.store }

// PageURL is where the live page is.
func (d *Daemon) PageURL() string { return d.http.url() }

// PageLink is a link that opens the live page, once, within ten minutes. Where the page asks for no token of the data
// folder it is the page's address.
func (d *Daemon) PageLink() string {
	link, err := PageLink(d.config.Stream.Dir, d.PageURL())
	if err != nil || !d.flight.Gate().OwnOnly() {
		return d.PageURL()
	}
	return link
}

// PageLink is a link that opens the live page at a URL, by the token of the daemon's data folder.
func PageLink(dir, page string) (string, error) {
	token, err := access.ReadToken(filepath.Join(dir, access.FlightTokenFile))
	if err != nil {
		return "", err
	}
	u, err := url.Parse(page)
	if err != nil {
		return "", fmt.Errorf("read the page's address: %w", err)
	}
	u.Path = cmp.Or(u.Path, "/")
	u.Fragment = "login=" + access.SignPage(token, access.LoopbackIP(u.Host), time.Now())
	return u.String(), nil
}

// FlightURI is where Flight clients connect.
func (d *Daemon) FlightURI() string {
	scheme := "grpc://"
	if d.config.Flight.Cert != "" {
		scheme = "grpc+tls://"
	}
	return scheme + reachable(d.flight.Addr().String())
}

// advertised is where readers on other machines find the daemon.
func (d *Daemon) advertised() string {
	scheme, address := "grpc://", d.config.Flight.Advertise
	if d.config.Flight.Cert != "" {
		scheme = "grpc+tls://"
	}
	if address == "" {
		address = d.flight.Addr().String()
		host, port, err := net.SplitHostPort(address)
		if name, unnamed := os.Hostname(); err == nil && unnamed == nil && net.ParseIP(host).IsUnspecified() {
			address = net.JoinHostPort(name, port)
		}
	}
	return scheme + address
}

// reachable replaces a wildcard host by loopback.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err == nil && net.ParseIP(host).IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}
