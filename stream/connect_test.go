package stream_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"loaderd/internal/certtest"
	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/planlog"
	embedded "loaderd/stream/server"
)

func TestStatus_FollowsServerStopAndRestart(t *testing.T) {
	s := natstest.Start(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	if _, err := s.Store().EnsureDocuments(ctx); err != nil {
		t.Fatal(err)
	}
	remote := s.OpenRemote()
	up := remote.Status()
	if !up.Connected || up.Err != nil || up.Since.IsZero() {
		t.Fatalf("status %+v, want connected", up)
	}
	s.Stop()
	natstest.Eventually(t, "the loss shows", func() bool { return !remote.Status().Connected })
	if down := remote.Status(); down.Err == nil || !down.Since.After(up.Since) {
		t.Errorf("status %+v, want the error and since when", down)
	}
	s.Restart()
	natstest.Eventually(t, "the connection is back", func() bool { return remote.Status().Connected })
	if back := remote.Status(); back.Err != nil {
		t.Errorf("status %+v, want no error", back)
	}
	natstest.Publish(t, remote, natstest.Documents(1, 1)...)
}

func TestOpen_WaitsForServer(t *testing.T) {
	s := natstest.Start(t)
	c := remoteConfig(s.Store().ClientURL())
	c.TokenFile = filepath.Join(s.Config().Dir, embedded.OperatorFile)
	s.Stop()
	opened := make(chan error, 1)
	go func() {
		store, err := stream.Open(natstest.TimeoutContext(t, time.Minute), c, quiet())
		if err == nil {
			err = store.Close()
		}
		opened <- err
	}()
	s.Restart()
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func remoteConfig(url string) stream.Config {
	c := stream.Default()
	c.URL, c.ReconnectWait = url, 100*time.Millisecond
	return c
}

func TestOpen_UnreachableServerIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, err = stream.Open(natstest.TimeoutContext(t, 300*time.Millisecond), remoteConfig("nats://user:secret@"+address),
		quiet())
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), address) ||
		!strings.Contains(err.Error(), "stream.url") {
		t.Errorf("error %v, want one that names %s and stream.url", err, address)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("error %q gives the password away", err)
	}
}

// refusedAtOnce checks that opening fails with a final error although much time is left for retries.
func refusedAtOnce(t *testing.T, c stream.Config, part string) {
	t.Helper()
	ctx := natstest.TimeoutContext(t, time.Minute)
	_, err := stream.Open(ctx, c, quiet())
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), part) {
		t.Errorf("error %v, want one at once that names %q", err, part)
	}
}

func opens(t *testing.T, c stream.Config) {
	t.Helper()
	store, err := stream.Open(natstest.TimeoutContext(t, time.Minute), c, quiet())
	if err != nil {
		t.Error(err)
		return
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpen_ChecksPassword(t *testing.T) {
	address := natstest.StartPlain(t, &server.Options{JetStream: true, Username: "user", Password: "secret"})
	opens(t, remoteConfig("nats://user:secret@"+address))
	refusedAtOnce(t, remoteConfig("nats://user:wrong@"+address), "stream.credentials")
	refusedAtOnce(t, remoteConfig("nats://"+address), "stream.credentials")
}

func TestOpen_ChecksNKey(t *testing.T) {
	write := func(name string) (path, public string) {
		t.Helper()
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		seed, err := pair.Seed()
		if err != nil {
			t.Fatal(err)
		}
		if public, err = pair.PublicKey(); err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, seed, 0o600); err != nil {
			t.Fatal(err)
		}
		return path, public
	}
	known, public := write("known")
	stranger, _ := write("stranger")
	c := remoteConfig("nats://" + natstest.StartPlain(t,
		&server.Options{JetStream: true, Nkeys: []*server.NkeyUser{{Nkey: public}}}))
	c.NKey = known
	opens(t, c)
	c.NKey = stranger
	refusedAtOnce(t, c, "stream.nkey")
	c.NKey = filepath.Join(t.TempDir(), "absent")
	refusedAtOnce(t, c, "absent")
	c.NKey, c.Credentials = "", filepath.Join(t.TempDir(), "absent")
	refusedAtOnce(t, c, "absent")
}

func TestOpen_ChecksServerCertificate(t *testing.T) {
	dir := t.TempDir()
	serverCert := certificate(t, dir, "server")
	certificate(t, dir, "other")
	address := natstest.StartPlain(t, &server.Options{JetStream: true,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{serverCert}}, TLSTimeout: 10})
	c := remoteConfig("tls://" + address)
	c.TLS.CA = filepath.Join(dir, "server.pem")
	opens(t, c)
	c.TLS.CA = filepath.Join(dir, "other.pem")
	refusedAtOnce(t, c, "stream.tls.ca")
	c.TLS.CA = ""
	refusedAtOnce(t, c, "stream.tls.ca")
	c.TLS.CA = filepath.Join(dir, "absent.pem")
	refusedAtOnce(t, c, "absent.pem")
	c.TLS.CA = filepath.Join(dir, "server.pem")
	c.URL = "tls://" + natstest.StartPlain(t, &server.Options{JetStream: true})
	refusedAtOnce(t, c, "tls://")
}

// certificate returns a new certificate, which is also in the file NAME.pem in dir.
func certificate(t *testing.T, dir, name string) tls.Certificate {
	t.Helper()
	c, err := tls.LoadX509KeyPair(certtest.SelfSigned(t, dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOpen_RequiresJetStream(t *testing.T) {
	address := natstest.StartPlain(t, &server.Options{})
	_, err := stream.Open(natstest.TimeoutContext(t, 300*time.Millisecond), remoteConfig("nats://"+address), quiet())
	if err == nil || !strings.Contains(err.Error(), "JetStream enabled") || !strings.Contains(err.Error(), address) {
		t.Errorf("error %v, want one that asks for JetStream at %s", err, address)
	}
}

// A store that can no longer be written reports this in Status and in the error of an append, with the cause.
func TestStatus_ReportsWriteErrors(t *testing.T) {
	s := natstest.StartEmbedded(t)
	ctx := natstest.TimeoutContext(t, time.Minute)
	l, err := planlog.Open(ctx, s.Store(), "run")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(ctx, 0, []byte("one")); err != nil {
		t.Fatal(err)
	}
	// Blocks can no longer be created. This has the effect of a full disk, also for a test that runs as root.
	blocks := filepath.Join(s.Config().Dir, "jetstream", "LOADERD", "streams", "PLAN_run", "msgs")
	if err := os.Rename(blocks, blocks+".gone"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blocks, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stop, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() {
		for last := uint64(1); ; last++ {
			if err := l.Append(stop, last, make([]byte, 4<<20)); err != nil {
				failed <- err
				return
			}
		}
	}()
	natstest.Eventually(t, "the write error shows", func() bool { return !s.Store().Status().Connected })
	var write *embedded.StorageError
	st := s.Store().Status()
	if !errors.As(st.Err, &write) || write.Path != s.Config().Dir || write.Full || write.Free <= 0 {
		t.Errorf("status %+v, want the write error, the folder and its free space", st)
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "write error") {
		t.Errorf("append: %v, want the write error as the cause", err)
	}
}
