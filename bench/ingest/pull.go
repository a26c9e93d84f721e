package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"loaderd/stream"
	"loaderd/stream/server"
)

// pullTimeout limits the start of the daemon, and the time until it has pulled all documents.
const pullTimeout = 5 * time.Minute

// stopTimeout is the time after which a daemon that does not stop is killed.
const stopTimeout = 30 * time.Second

// pullTo serves a file over HTTP and starts a daemon in a data folder that pulls it. It plans one step, so that it
// tokenizes almost nothing. The time is measured from the first documents in the stream to the last one.
func (o options) pullTo(ctx context.Context, dir, _, file string) (p published, err error) {
	ctx, restore := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM) // so that the daemon is stopped
	defer restore()
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	all := int64(0)
	for _, err := range documents(ctx, o.bytes) {
		if err != nil {
			return p, err
		}
		all++
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return p, err
	}
	files := http.Server{Handler: http.FileServer(http.Dir(filepath.Dir(file))), ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = files.Serve(l) })
	defer func() { err = errors.Join(err, files.Close()); serving.Wait() }()
	daemon := exec.CommandContext(ctx, o.loaderd, "serve")
	daemon.Cancel = func() error { return daemon.Process.Signal(syscall.SIGTERM) }
	daemon.WaitDelay = stopTimeout
	daemon.Stderr = os.Stderr
	daemon.Env = append(os.Environ(), "LOADERD_STREAM__DIR="+dir, "LOADERD_STREAM__LISTEN=127.0.0.1:0",
		"LOADERD_FLIGHT__LISTEN=127.0.0.1:0", "LOADERD_HTTP__LISTEN=127.0.0.1:0", "LOADERD_TOKENIZER__NAME=gpt2",
		"LOADERD_SERVE__AHEAD=1", "LOADERD_LOG__LEVEL=warn",
		fmt.Sprintf("LOADERD_PULL__FROM=http://%s/%s", l.Addr(), filepath.Base(file)))
	if err := daemon.Start(); err != nil {
		return p, err
	}
	var ended error // of the daemon
	var running sync.WaitGroup
	running.Go(func() {
		defer cancel()
		ended = daemon.Wait()
	})
	defer func() {
		cancel()
		running.Wait()
		if errors.Is(ended, ctx.Err()) { // it stopped as requested
			ended = nil
		}
		err = errors.Join(err, ended, os.RemoveAll(dir))
	}()
	stored, end, err := storedIn(ctx, dir)
	if err != nil {
		return p, fmt.Errorf("open the daemon's document stream: %w", err)
	}
	defer end()
	var first int64
	var began time.Time
	for {
		n, err := stored(ctx)
		if err != nil {
			return p, err
		}
		switch {
		case n >= all && first == 0:
			return p, fmt.Errorf("all %d documents were pulled before the measurement began: use more -megabytes", all)
		case n >= all:
			elapsed := time.Since(began).Seconds()
			return published{Documents: all, Seconds: elapsed * float64(all) / float64(all-first)}, nil
		case n > 0 && first == 0:
			first, began = n, time.Now()
		}
		select {
		case <-ctx.Done():
			return p, fmt.Errorf("pulled %d of %d documents: %w", n, all, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// storedIn waits for the document stream of the server of a data folder, and returns a function that returns its number
// of documents.
func storedIn(ctx context.Context, dir string) (stored func(context.Context) (int64, error), end func(), err error) {
	c := streamConfig(dir)
	for {
		if c.URL = server.HolderURL(dir); c.URL != "" {
			if store, err := stream.OpenProducer(ctx, c, newLog()); err == nil {
				if s, err := store.JetStream().Stream(ctx, c.Name); err == nil {
					return func(ctx context.Context) (int64, error) {
						info, err := s.Info(ctx)
						if err != nil {
							return 0, err
						}
						return int64(info.State.Msgs), nil
					}, func() { store.Close() }, nil
				}
				store.Close()
			}
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
