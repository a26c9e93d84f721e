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
	"loaderd/internal/auth"
	"loaderd/internal/build"
	"loaderd/internal/config"
	"loaderd/internal/connlimit"
	"loaderd/internal/daemonfile"
	"loaderd/internal/event"
	"loaderd/internal/status"
	"loaderd/internal/tracing"
	"loaderd/loader"
	"loaderd/loader/backend"
	"loaderd/loader/fault"
	"loaderd/loader/planview"
	"loaderd/loader/runconfig"
	"loaderd/stream"
	"loaderd/stream/checkpoints"
	"loaderd/stream/daemonbus"
	"loaderd/stream/deadletter"
	"loaderd/stream/docstream"
	"loaderd/stream/lease"
	"loaderd/stream/permissions"
	"loaderd/stream/planlog"
	"loaderd/stream/runstate"
)

// Daemon is a running daemon.
type Daemon struct {
	config    config.Config
	log       *slog.Logger
	store     *stream.Store
	elector   *lease.Elector
	docs      *sourceOpener
	dead      *deadletter.Tallies
	run       *loader.Run
	flight    *arrowout.Server
	monitor   *status.Monitor
	http      *httpServer
	metrics   *prometheus.Registry
	pulls     *pullerSet
	pullsDone chan struct{}   // closed when pulling has ended; nil before it has started
	tracer    *tracing.Tracer // nil: documents are not traced

	stopping       atomic.Bool
	reloadRequests chan struct{} // requests a reload of certificates, tokens and identities

	stopRun           context.CancelFunc
	removeMemoryLimit func()        // removes the memory limit
	runDone           chan struct{} // closed when the run has ended; nil before it has started
	runErr            error         // of the run; valid after served is closed
	done              chan struct{} // closed when the run or a server has ended
	err               error         // the cause; valid after ended is closed
}

// Start starts all parts of the daemon and returns when readers can connect. ctx limits only the start.
func Start(ctx context.Context, c config.Config, log *slog.Logger) (_ *Daemon, err error) {
	began := time.Now()
	self := ProcessInfo()
	events := status.NewEvents(self.Name())
	log = slog.New(events.Handler(log.Handler()))
	limitConnections(&c, connlimit.Descriptors(), log)
	d := &Daemon{config: c, log: log, dead: deadletter.NewTallies(), metrics: prometheus.NewRegistry(),
		reloadRequests: make(chan struct{}, 1), done: make(chan struct{}), stopRun: func() {},
		removeMemoryLimit: limitMemory(c)}
	defer func() {
		if err != nil {
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Shutdown.Timeout)
			defer cancel()
			if d.store != nil {
				err = errors.Join(err, d.store.RemoveEmptyStreams(stop))
			}
			err = errors.Join(err, d.close(stop))
		}
	}()
	tokens, err := d.openTokenizer(ctx, self.Name())
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
	// Records of a new run are written only after all other parts have started. A failed start leaves no trace of its
	// configuration.
	d.serve(context.WithoutCancel(ctx))
	writeAddresses(c.Stream.Dir, daemonfile.Addresses{PID: os.Getpid(), Run: c.Run, Flight: d.FlightURI(),
		HTTP: d.PageURL()}, log)
	log.Info("ready", event.DaemonReady, "run", c.Run, "flight", d.FlightURI(), "nats", d.store.ClientURL(), "http",
		d.http.url(), "after",
		time.Since(began).Round(time.Millisecond))
	return d, nil
}

// openTokenizer opens the tokenizer and the tracer of documents, and adds the tokenizer's settings to the
// configuration.
func (d *Daemon) openTokenizer(ctx context.Context, name string) (docstream.Tokenization, error) {
	tokens, err := LoadRunTokenizer(&d.config, d.log)
	if err != nil {
		return tokens, err
	}
	tokens.Hints = d.config.Plan.Packing.SimilarityConfig()
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

// openStore connects to the streams. It checks that this daemon has the permissions it needs, and that its
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
		if err := permissions.Check(ctx, d.store, c.Run, d.permissionTasks(*c)); err != nil {
			return err
		}
	}
	if err := checkPlan(ctx, d.store, c.Run, c.Plan); err != nil {
		return err
	}
	if d.store.Own() != d.store { // producers have no permission to create streams
		if _, err := d.store.EnsureRecords(ctx); err != nil {
			return err
		}
	}
	d.elector, err = runstate.NewElector(ctx, d.store, c.Run, self)
	return err
}

// openRun opens this daemon's part of the run and the pulled sources, and returns the plan log.
func (d *Daemon) openRun(ctx context.Context, self lease.LeaderInfo,
	tokens docstream.Tokenization) (*planlog.Log, error) {
	c := d.config
	steps, err := planlog.Open(ctx, d.store, c.Run)
	if err != nil {
		return nil, err
	}
	tokens.Store = OpenTokenStore(&c, d.log)
	of := &sourceOpener{store: d.store, plan: steps, tokens: tokens.WithSharedEncoders(c.Stream.Workers), config: c.Plan,
		dead: d.dead}
	d.docs = of
	edges := backend.Backends{Log: d.log, Elector: d.elector, Bus: daemonbus.New(d.store, c.Run), Daemon: self.Name(),
		Plan: steps, Keyed: steps.Keyed(), Sources: of}
	if d.tracer != nil {
		edges.Tracer = d.tracer
	}
	edges.Connection = func() backend.Connection { return backendConnection(d.store.Status()) }
	edges.PullStatus = func(source string) (why, do string, ok bool) { return d.pulls.pullBlockage(source) }
	if d.pulls, err = d.newPulls(ctx, c, self, d.log); err != nil {
		return nil, err
	}
	if edges.Checkpoints, err = checkpoints.Open(ctx, steps); err != nil {
		return nil, err
	}
	d.run, err = loader.Open(ctx, c.Run, c.Plan, c.Serve, edges)
	return steps, err
}

// openServers creates the Flight and HTTP servers, registers the metrics, and starts the Flight server.
func (d *Daemon) openServers(name string, events *status.Events, steps *planlog.Log,
	texts func(dst []byte, id int32) []byte) (err error) {
	c := d.config
	d.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	ours := prometheus.WrapRegistererWith(prometheus.Labels{"run": c.Run}, d.metrics)
	if d.flight, err = arrowout.NewServer(c.Flight, arrowout.AdaptRun(d.run), d.log, ours); err != nil {
		return err
	}
	d.flight.SetTokenText(texts)
	if d.http, err = listenHTTP(c.HTTP, d); err != nil {
		return err
	}
	for what, r := range d.reloaders() {
		ours.MustRegister(expiryCollector(what, r))
	}
	if d.tracer != nil {
		d.flight.SetTracer(d.tracer)
	}
	d.flight.SetReadTracker(d.store)
	d.monitor = d.newMonitor(name, events, steps)
	d.flight.SetStatusProvider(d.monitor)
	if err := d.flight.Start(); err != nil {
		return err
	}
	ours.MustRegister(runMetrics{d.run, d.docs}, pullMetrics{d.pulls}, deadLetterMetrics{d.dead},
		tokenStoreMetrics{d.docs.tokens.Store},
		rankMetrics{d.flight.StreamStats, d.run.Ranks, d.run.Info},
		daemonMetrics{d.run.IsLeader, d.monitor.Term, d.run.Verdict}, buildInfo(build.This()))
	return nil
}

// serve starts the run and its background tasks.
func (d *Daemon) serve(ctx context.Context) {
	d.run.SetAddress(d.advertisedURI())
	d.elector.SetFlightAddress(d.advertisedURI())
	ctx, d.stopRun = context.WithCancel(ctx)
	d.runDone = make(chan struct{})
	go func() {
		defer close(d.runDone)
		d.runErr = d.run.Serve(ctx)
	}()
	d.pullsDone = make(chan struct{})
	go func() {
		defer close(d.pullsDone)
		d.pulls.serve(ctx)
	}()
	d.http.start()
	go auth.WatchFiles(ctx, d.log, d.reloadRequests, d.reloaders())
	go d.monitor.Serve(ctx)
	go d.dead.Follow(ctx)
	go logProgress(ctx, d.log.With("run", d.config.Run), d.config.Log.Progress, d.run.Stats)
	go d.waitForEnd()
}

// checkPlan rejects a plan that this daemon would continue differently, before the run creates or changes anything. A
// lagging server of a cluster may not have the plan yet, so loader.Open repeats the check.
func checkPlan(ctx context.Context, store *stream.Store, run string, c runconfig.Config) error {
	steps, err := planlog.OpenExisting(ctx, store, run)
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

// checkStreams returns the *stream.SettingsError of a document stream that the daemon cannot use, nil for none.
// Another stream.subject changes the plan's sources as well, and the error about the stream contains the value to
// set.
func checkStreams(ctx context.Context, own *stream.Store, c runconfig.Config) error {
	for name := range c.Sources {
		store := own.Source(name, len(c.Sources))
		documents := store.Config().Name
		st, err := store.Find(ctx, "stream "+documents, documents, docstream.ErrNoStream)
		if err == nil {
			err = store.CheckDocuments(st.CachedInfo().Config)
		}
		if settings := (*stream.SettingsError)(nil); errors.As(err, &settings) {
			return settings
		}
	}
	return nil
}

// ownToken returns the token of the data folder if callers must present it, else nil. It is required because on
// loopback every user of the machine can reach the daemon.
func ownToken(store *stream.Store, c *config.Config) (*auth.StoredToken, error) {
	if !c.Flight.RequiresOwnToken() {
		return nil, nil
	}
	const instead = "configure authentication (flight.identities, flight.token_file), or set flight.insecure: true"
	if c.Stream.Dir == "" {
		return nil, errors.New("stream.dir: want a folder for the Flight token, also with an external NATS server; or " +
			instead)
	}
	if err := os.MkdirAll(c.Stream.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the Flight token (stream.dir): %w; or %s", err, instead)
	}
	own := store.FlightToken()
	_, err := own.Read()
	return &own, err
}

// ProcessInfo describes this process as a leader.
func ProcessInfo() lease.LeaderInfo {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return lease.NewLeaderInfo(host, os.Getpid())
}

// Reload reads certificates, tokens and identities again. The daemon also does so when their files change.
func (d *Daemon) Reload() {
	select {
	case d.reloadRequests <- struct{}{}:
	default:
	}
}

// ApplyLimits applies only the limits of a configuration: those of the Flight server, except max_connections.
func (d *Daemon) ApplyLimits(c config.Config) {
	d.flight.ApplyLimits(c.Flight)
	d.log.Info("set limits", "max_streams", c.Flight.MaxStreams, "max_streams_per_identity",
		c.Flight.MaxStreamsPerIdentity,
		"max_committing_jobs_per_identity", c.Flight.MaxCommittingJobsPerIdentity,
		"send_bytes", c.Flight.SendBytes, "slow_reader_timeout", c.Flight.SlowReaderTimeout)
}

// reloaders returns everything that can be reloaded while the daemon runs.
func (d *Daemon) reloaders() map[string]auth.Reloader {
	all := map[string]auth.Reloader{"flight certificate": d.flight.Certificates(), "identities": d.flight.Gate(),
		"http certificate": d.http.certificates}
	maps.Copy(all, d.store.Reloaders())
	return all
}

// waitForEnd waits until the first part of the daemon ends.
func (d *Daemon) waitForEnd() {
	defer close(d.done)
	select {
	case <-d.runDone:
		d.err = d.runErr
	case err := <-d.flight.ServeErr():
		if err != nil {
			d.err = fmt.Errorf("serve flight: %w", err)
			return
		}
		<-d.runDone // after a shutdown the run ends next
		d.err = d.runErr
	case err := <-d.http.serveErr:
		d.err = fmt.Errorf("serve http: %w", err)
	}
}

// Wait blocks until the run or a server has failed, or the daemon is stopped.
func (d *Daemon) Wait() error {
	<-d.done
	return d.err
}

// Stop stops the daemon gracefully within ctx. Readers receive the reason, and the planned steps are stored.
func (d *Daemon) Stop(ctx context.Context) error {
	d.stopping.Store(true)
	return errors.Join(daemonfile.Remove(d.config.Stream.Dir, os.Getpid()), d.close(ctx))
}

// writeAddresses writes the addresses of a daemon's servers to its data folder, where commands on this machine find
// them. An error is only logged, because the addresses can also be given to commands.
func writeAddresses(dir string, a daemonfile.Addresses, log *slog.Logger) {
	if _, err := os.Stat(dir); err != nil {
		return // a daemon with identities on external NATS servers has no data folder
	}
	if err := daemonfile.Write(dir, a); err != nil {
		log.Warn("commands do not find the daemon by its data folder", "error", err)
	}
}

// close stops the parts that have started: first the readers, which receive the reason, then the run, and last the
// store.
func (d *Daemon) close(ctx context.Context) (err error) {
	defer d.removeMemoryLimit()
	d.awaitReaders(ctx)
	if d.flight != nil {
		readers, cancel := withHalfDeadline(ctx) // a blocked reader must not use up the run's time
		d.flight.Shutdown(readers)
		cancel()
	}
	d.stopRun()
	if d.runDone != nil {
		select {
		case <-d.runDone:
		case <-ctx.Done():
			err = errors.Join(err, fmt.Errorf("stop run: %w", ctx.Err()))
		}
	}
	if d.pullsDone != nil {
		select {
		case <-d.pullsDone:
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
	if d.docs != nil {
		d.docs.tokens.Store.Close()
	}
	return err
}

// failureGrace limits the time for which the daemon of a failed run waits until readers have received the cause.
const failureGrace = time.Second

// awaitReaders waits until the readers of a failed run have received the cause. Once the Flight server stops, they
// receive only the information that it stops.
func (d *Daemon) awaitReaders(ctx context.Context) {
	select {
	case <-d.runDone:
	default:
		return
	}
	if d.runErr == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, failureGrace)
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

// withHalfDeadline returns a context that ends after half of ctx's remaining time.
func withHalfDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(end)/2)
	}
	return context.WithCancel(ctx)
}

// Run returns the run that the daemon serves.
func (d *Daemon) Run() *loader.Run { return d.run }

// Store returns the daemon's connection to JetStream.
func (d *Daemon) Store() *stream.Store { return d.store }

// PageURL returns the URL of the live page.
func (d *Daemon) PageURL() string { return d.http.url() }

// PageLink returns a link that opens the live page once, within ten minutes. If the page requires no token of the
// data folder, it returns the page's address.
func (d *Daemon) PageLink() string {
	link, err := PageLink(d.config.Stream.Dir, d.PageURL())
	if err != nil || !d.flight.Gate().HasOnlyOwnToken() {
		return d.PageURL()
	}
	return link
}

// PageLink returns a link that opens the live page at a URL, using the token of the daemon's data folder.
func PageLink(dir, page string) (string, error) {
	token, err := auth.ReadToken(filepath.Join(dir, auth.FlightTokenFile))
	if err != nil {
		return "", err
	}
	u, err := url.Parse(page)
	if err != nil {
		return "", fmt.Errorf("read the page's address: %w", err)
	}
	u.Path = cmp.Or(u.Path, "/")
	u.Fragment = "login=" + auth.SignPage(token, auth.LoopbackIP(u.Host), time.Now())
	return u.String(), nil
}

// FlightURI returns the URI of the Flight server.
func (d *Daemon) FlightURI() string {
	scheme := "grpc://"
	if d.config.Flight.Cert != "" {
		scheme = "grpc+tls://"
	}
	return scheme + dialAddress(d.flight.Addr().String())
}

// advertisedURI returns the address at which readers on other machines reach the daemon.
func (d *Daemon) advertisedURI() string {
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

// dialAddress replaces a wildcard host by loopback.
func dialAddress(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err == nil && net.ParseIP(host).IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}
