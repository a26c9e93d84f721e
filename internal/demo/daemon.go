package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"loaderd/internal/config"
	"loaderd/internal/daemonfile"
	"loaderd/internal/flightclient"
	"loaderd/stream/server"
)

// daemonProcess is a daemon in a process. It ends with this process, because it stops at the end of its standard
// input.
type daemonProcess struct {
	dir       string // data folder
	settings  []config.Override
	addresses daemonfile.Addresses // the same after a restart
	nats      string               // address of the NATS server, the same after a restart
	client    *flightclient.Client

	process *exec.Cmd
	stdin   io.Closer
	ended   chan struct{} // closed when the process has ended
	log     *processLog
	peak    int64 // peak resident memory of the processes that have ended, in bytes; 0 if unknown
}

// pollInterval is the interval at which a starting daemon is observed.
const pollInterval = 20 * time.Millisecond

// startDaemon starts loaderd serve and returns when readers can connect. log receives the lines of the daemon's log.
func startDaemon(ctx context.Context, dir string, settings []config.Override, log io.Writer) (*daemonProcess, error) {
	d := &daemonProcess{dir: dir, settings: settings, log: &processLog{log: log}}
	if err := d.start(ctx); err != nil {
		return nil, err
	}
	var err error
	if d.addresses, err = daemonfile.Read(dir); err != nil {
		return nil, errors.Join(err, d.kill())
	}
	d.nats = server.HolderURL(dir)
	client, err := flightclient.Open(d.addresses.Flight, flightclient.Options{DataDir: dir})
	if err != nil {
		return nil, errors.Join(err, d.kill())
	}
	d.client = client
	return d, nil
}

func (d *daemonProcess) start(ctx context.Context) error {
	arguments := []string{"serve", "--until-eof"}
	for _, s := range d.settings {
		arguments = append(arguments, "--set", s.Path+"="+s.Value)
	}
	process, err := command(arguments...)
	if err != nil {
		return err
	}
	stdin, err := process.StdinPipe()
	if err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	process.Stdout, process.Stderr = d.log, d.log
	if err := process.Start(); err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	d.process, d.stdin, d.ended = process, stdin, make(chan struct{})
	go func() {
		_ = process.Wait() // its state is read below
		close(d.ended)
	}()
	if err := d.awaitReady(ctx); err != nil {
		return errors.Join(err, d.kill())
	}
	return nil
}

// awaitReady waits until the daemon has written its addresses, which it does when readers can connect.
func (d *daemonProcess) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.ended:
			return fmt.Errorf("start the daemon: %w", d.endedError())
		case <-tick.C:
		}
		a, err := daemonfile.Read(d.dir)
		if err != nil {
			return err
		}
		if a.PID == d.process.Process.Pid {
			return nil
		}
	}
}

// endedError describes the end of a process that was not stopped.
func (d *daemonProcess) endedError() error {
	return fmt.Errorf("%s: %s", d.process.ProcessState, d.log.lastLine("no message"))
}

// kill ends the process at once (SIGKILL), and waits for its end.
func (d *daemonProcess) kill() error {
	if err := d.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the daemon: %w", err)
	}
	d.awaitEnd()
	return nil
}

// restart starts the daemon again, at the same addresses.
func (d *daemonProcess) restart(ctx context.Context) error {
	for path, address := range map[string]string{"stream.listen": d.nats, "flight.listen": d.addresses.Flight,
		"http.listen": d.addresses.HTTP} {
		d.settings = append(d.settings, config.Override{Path: path, Value: hostPort(address)})
	}
	return d.start(ctx)
}

// stop requests the daemon to stop, and kills it after the timeout.
func (d *daemonProcess) stop(timeout time.Duration) error {
	if d.client != nil {
		_ = d.client.Close() // nothing is lost with it
	}
	_ = d.stdin.Close() // fails if the process has ended
	select {
	case <-d.ended:
	case <-time.After(timeout):
		return errors.Join(fmt.Errorf("the daemon did not stop within %v", timeout), d.kill())
	}
	d.awaitEnd()
	return nil
}

func (d *daemonProcess) awaitEnd() {
	<-d.ended
	d.peak = max(d.peak, accountedPeak(d.process.ProcessState))
}

// hostPort returns the address in a URL: HOST:PORT.
func hostPort(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	return strings.TrimSuffix(rest, "/")
}
