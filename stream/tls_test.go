package stream_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/internal/certtest"
	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/conn"
	"loaderd/stream/server"
)

// A server with a certificate accepts clients over TLS only, and uses the certificate that was loaded last. Existing
// connections stay open.
func TestEmbeddedServer_TLSReloadsCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := certtest.SelfSigned(t, dir, "server")
	s := natstest.StartEmbedded(t, func(c *stream.Config) { c.TLS = conn.TLS{Cert: cert, Key: key} })
	ctx := natstest.Context(t)
	openDocuments(t, s.Store())
	c := s.Config()
	c.URL, c.TLS = s.Store().ClientURL(), conn.TLS{}
	if store, err := stream.Open(ctx, c, quiet()); err == nil || !strings.Contains(err.Error(), "stream.tls.ca") {
		t.Errorf("without the authority: %v, %v", store, err)
	}
	open := func() (*stream.Store, error) {
		ca, err := os.ReadFile(cert)
		if err != nil {
			t.Fatal(err)
		}
		c := c
		c.TLS.CA = filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(c.TLS.CA, ca, 0o600); err != nil {
			t.Fatal(err)
		}
		return stream.OpenProducer(ctx, c, quiet())
	}
	before, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	natstest.Publish(t, before, natstest.Documents(1, 1)...)
	certtest.SelfSigned(t, dir, "server") // another one in the same files
	if store, err := open(); err == nil {
		t.Errorf("the new certificate is shown before it was read: %v", store)
	}
	for what, r := range s.Store().Reloaders() {
		if err := r.Reload(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	after, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	natstest.Publish(t, after, natstest.Documents(2, 1)...)
	if before.Conn().Stats().Reconnects != 0 {
		t.Error("the connection that was there was lost")
	}
	natstest.Publish(t, before, natstest.Documents(3, 1)...)
	holds(t, s.Store(), 3)
}

// Members with certificates and the same secret form a cluster, whose producers share one token. A server with
// another secret, without a secret, or without a certificate gets no route.
func TestEmbeddedCluster_TLSRoutesNeedSecretAndCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := certtest.SelfSigned(t, dir, "server")
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	secret := file("secret", "the-secret-of-the-members")
	peers := make([]string, 3)
	for i := range peers {
		peers[i] = natstest.FreeAddress(t)
	}
	config := func(listen string) stream.Config {
		c := natstest.Config(t)
		c.Replicas = 3
		c.Cluster = server.Cluster{Name: "corpus", Listen: listen, Peers: peers, SecretFile: secret}
		c.TLS = conn.TLS{Cert: cert, Key: key, CA: cert}
		return c
	}
	stores, opening := make([]*stream.Store, 3), sync.WaitGroup{}
	for i, peer := range peers {
		c := config(peer)
		opening.Go(func() {
			s, err := stream.Open(natstest.TimeoutContext(t, time.Minute), c, quiet())
			if err != nil {
				t.Errorf("open member %d: %v", i, err)
				return
			}
			stores[i] = s
			t.Cleanup(func() { _ = s.Close() })
		})
	}
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
	openDocuments(t, stores[0])
	natstest.Publish(t, stores[0], natstest.Documents(1, 5)...)
	holds(t, stores[2], 5)

	for _, at := range stores {
		nc, err := nats.Connect(natstest.URLWithToken(at.ClientURL(), stores[0].Config().Dir, server.ProducerFile),
			nats.RootCAs(cert))
		if err != nil {
			t.Errorf("a member does not know the token of another one : %v", err)
			continue
		}
		nc.Close()
	}

	joins := func(limit time.Duration, edit func(*stream.Config)) bool {
		c := config(natstest.FreeAddress(t))
		edit(&c)
		ctx, cancel := context.WithTimeout(natstest.Context(t), limit)
		defer cancel()
		s, err := stream.Open(ctx, c, quiet())
		if err == nil {
			err = s.Close()
		}
		return err == nil
	}
	began := time.Now()
	if !joins(time.Minute, func(*stream.Config) {}) {
		t.Error("one more member with all that the others have does not join")
	}
	enough := 3*time.Since(began) + time.Second
	for name, edit := range map[string]func(*stream.Config){
		"another secret":      func(c *stream.Config) { c.Cluster.SecretFile = file("other", "a-secret-of-somebody-else") },
		"a secret of its own": func(c *stream.Config) { c.Cluster.SecretFile = "" },
		"no certificate":      func(c *stream.Config) { c.TLS = conn.TLS{} },
		"a certificate of another authority": func(c *stream.Config) {
			c.TLS.Cert, c.TLS.Key = certtest.SelfSigned(t, t.TempDir(), "server")
		},
	} {
		if joins(enough, edit) {
			t.Errorf("%s: it is a member", name)
		}
	}
}
