package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/auth"
	"loaderd/internal/config"
	"loaderd/internal/daemon"
	"loaderd/internal/flightclient"
	"loaderd/internal/lengths"
	"loaderd/stream"
	"loaderd/stream/publish"
	"loaderd/stream/server"
)

// target is a daemon's addresses and tokens, for reader and attacker.
type target struct {
	Flight, HTTP, NATS string // URI, URL, host:port
	CA                 string // file; empty without TLS
	Good, Bad          string // the reader's, with the role read; an attacker's, with the role operate
	Producer           string // token of producers
}

// trust is the TLS of a client, nil without.
func (t target) trust() (*tls.Config, error) {
	if t.CA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	c.RootCAs.AppendCertsFromPEM(text)
	return c, nil
}

// The run reads documents that are already tokenized.
const (
	steps       = 200
	rows        = 16
	bucket      = 2048
	vocabulary  = 50_257
	fingerprint = "floods"
	pool        = 256
	subject     = "docs.floods"
)

// serve runs a daemon until its standard input is closed. It prints the target once the steps are planned.
func serve(ctx context.Context, folder string, secure bool) (err error) {
	c, t, err := settings(folder, secure)
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	if err := fill(ctx, c, log); err != nil {
		return err
	}
	d, err := daemon.Start(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Stop(ctx)) }()
	t.Flight, t.HTTP = d.FlightURI(), d.PageURL()
	if t.Producer, err = auth.ReadToken(filepath.Join(c.Stream.Dir, server.ProducerFile)); err != nil {
		return err
	}
	client, err := flightclient.Open(t.Flight, flightclient.Options{Token: t.Good, TLS: must(t.trust())})
	if err != nil {
		return err
	}
	// Read returns when the steps are planned
	err = client.Read(ctx, api.Ticket{Steps: steps}, func(flightclient.Batch) error { return nil })
	if err = errors.Join(err, client.Close()); err != nil {
		return err
	}
	told, err := json.Marshal(t)
	if err != nil {
		return err
	}
	fmt.Println(string(told))
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// settings returns the daemon's settings, and the target with tokens for reader and attacker.
func settings(folder string, secure bool) (c config.Config, t target, err error) {
	c = config.Default()
	c.Stream.Dir, c.Flight.Listen, c.HTTP.Listen = filepath.Join(folder, "data"), "127.0.0.1:0", "127.0.0.1:0"
	c.Stream.MaxBytes, c.Stream.DeadLetterBytes, c.Stream.PlanBytes = 512<<20, 16<<20, 256<<20
	c.Tokenizer = config.Tokenizer{Name: config.TokenizerNone, Fingerprint: fingerprint, VocabSize: vocabulary,
		End: config.None, Pad: "0"}
	c.Plan.Packing.Buckets, c.Plan.Packing.Pool, c.Plan.Packing.MaxAge = []int{bucket}, pool, 4*pool
	c.Plan.Shuffle.Window, c.Plan.Steps.Rows = 64, rows
	if c.Stream.Listen, err = freeAddress(); err != nil {
		return c, t, err
	}
	t.NATS = c.Stream.Listen
	c.Flight.Identities = filepath.Join(folder, "identities.json")
	for _, i := range []struct {
		name  string
		role  auth.Role
		token *string
	}{{"good", auth.Read, &t.Good}, {"bad", auth.Operate, &t.Bad}} {
		token, hash := auth.NewToken()
		*i.token = token
		if err := auth.Add(c.Flight.Identities, auth.Identity{Name: i.name, Role: i.role, SHA256: hash}); err != nil {
			return c, t, err
		}
	}
	if secure {
		cert, key, err := selfSigned(folder)
		if err != nil {
			return c, t, err
		}
		c.Flight.Cert, c.Flight.Key, c.HTTP.Cert, c.HTTP.Key, t.CA = cert, key, cert, key, cert
	}
	return c, t, nil
}

// freeAddress returns a loopback address on which no program listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// fill publishes documents for the steps and for the planner's buffers.
func fill(ctx context.Context, c config.Config, log *slog.Logger) (err error) {
	store, err := stream.Open(ctx, c.Stream, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p, err := publish.New(ctx, store, "floods", publish.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	const ahead, average = 64, 500 // steps; minimum tokens of a document
	var ids []int32
	for i, n := range lengths.LogNormal(8*pool+(steps+ahead)*rows*bucket/average, 1) {
		ids = ids[:0]
		for k := range n {
			ids = append(ids, (int32(i)+k)%vocabulary)
		}
		m := stream.Message{Subject: subject, ID: strconv.Itoa(i), ContentType: stream.TypeTokens, Tokenizer: fingerprint,
			Data: stream.AppendTokens(nil, ids)}
		if err := p.Publish(ctx, m); err != nil {
			return fmt.Errorf("publish document %d: %w", i, err)
		}
	}
	_, err = p.Flush(ctx)
	return err
}

// selfSigned writes a certificate for 127.0.0.1, which is its own authority, and its key.
func selfSigned(folder string) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "floods"},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "cert.key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: public},
		key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			return "", "", err
		}
	}
	return cert, key, nil
}

// host returns host:port of a URL.
func host(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	return strings.TrimSuffix(rest, "/")
}
