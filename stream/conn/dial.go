package conn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"loaderd/internal/auth"
	"loaderd/internal/event"
)

// connect opens the connection. Within ctx it retries errors that can pass.
func connect(ctx context.Context, o Options, st *status, l *trackingDialer, log *slog.Logger) (*nats.Conn, error) {
	opts, err := clientOptions(o, st, l, log)
	if err != nil {
		return nil, err
	}
	if o.Server != nil {
		nc, err := nats.Connect("", opts...)
		if err != nil {
			return nil, fmt.Errorf("connect to the embedded NATS server: %w", err)
		}
		return nc, nil
	}
	servers := redactedURLs(o.URL)
	wait := newBackoff(o.ReconnectWait)
	for attempt := 1; ; attempt++ {
		nc, err := nats.Connect(o.URL, opts...)
		if err == nil {
			return nc, nil
		}
		if advice, final := diagnose(err); final {
			return nil, fmt.Errorf("connect to NATS at %s: %w: %s", servers, err, advice)
		}
		if advice := explainHTTP2(ctx, o.URL, err); advice != "" {
			return nil, fmt.Errorf("connect to NATS at %s: %w: %s", servers, err, advice)
		}
		log.Warn("NATS cannot be reached, trying again", "servers", servers, "attempt", attempt, "error", err)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to NATS at %s: %w (%w after %d attempts): is the server up, and stream.url right?",
				servers, err,
				context.Cause(ctx), attempt)
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// One of several servers gets less time to accept a connection than the only one, because another one may accept it.
const (
	ConnectTimeout        = 5 * time.Second
	clusterConnectTimeout = 2 * time.Second
)

func clientOptions(o Options, st *status, l *trackingDialer, log *slog.Logger) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name("loaderd"),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // credentials are sometimes replaced while the daemon runs
		nats.CustomReconnectDelay(reconnectDelay(o.ReconnectWait)),
		// No buffering while the connection is down: the caller must get an error for a message that was not sent.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxPingsOut),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err == nil {
				err = errors.New("connection lost")
			}
			st.setLost(err)
			log.Warn("lost connection to NATS, reconnecting", event.ConnectionLost, "error", err)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			st.setRestored()
			log.Info("connection to NATS restored", event.ConnectionRestored, "server", nc.ConnectedUrlRedacted())
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { st.setError(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			st.setError(err)
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Warn("NATS error", "subject", subject, "error", err)
		}),
		nats.NoCallbacksAfterClientClose(),
	}
	switch {
	case o.Login != nil && o.Server != nil:
		opts = append(opts, nats.UserInfoHandler(o.Login))
	case o.Login != nil:
		opts = append(opts, signedLogin(o.Login)...)
	}
	if o.Token != "" {
		opts = append(opts, nats.Token(o.Token))
	}
	if o.Inbox != "" {
		opts = append(opts, nats.CustomInboxPrefix(o.Inbox))
	}
	if o.Server != nil {
		return append(opts, nats.Timeout(ConnectTimeout), nats.InProcessServer(o.Server)), nil
	}
	l.dialer.Timeout = ConnectTimeout
	if strings.Contains(o.URL, ",") {
		l.dialer.Timeout = clusterConnectTimeout
	}
	opts = append(opts, nats.Timeout(l.dialer.Timeout), nats.SetCustomDialer(l))
	for key, file := range map[string]string{"tls.key": o.TLS.Key,
		"credentials, stream.system_account.credentials": o.Credentials,
		"nkey, stream.system_account.nkey":               o.NKey} {
		if err := auth.CheckPrivate(file); file != "" && err != nil {
			return nil, fmt.Errorf("read secret (stream.%s): %w", key, err)
		}
	}
	if o.TLS.CA != "" {
		opts = append(opts, nats.RootCAs(o.TLS.CA))
	}
	if o.TLS.Cert != "" {
		opts = append(opts, nats.ClientCert(o.TLS.Cert, o.TLS.Key))
	}
	if o.Credentials != "" {
		opts = append(opts, nats.UserCredentials(o.Credentials))
	}
	if o.NKey != "" {
		opt, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, fmt.Errorf("read NKey seed %s (stream.nkey): %w", o.NKey, err)
		}
		opts = append(opts, opt)
	}
	return opts, nil
}

// errNoNonce reports a server that cannot be the one inside a daemon.
var errNoNonce = errors.New("the server sends no nonce to sign: it is not the server inside a daemon")

// signedLogin returns options that send the user name and prove possession of the token by signing the server's nonce.
func signedLogin(login func() (user, token string)) []nats.Option {
	user := func() (string, string) {
		user, _ := login()
		return user, ""
	}
	instead := func() (string, error) { // replaces the JWT that the library signs with; the server ignores it
		user, _ := login()
		return user, nil
	}
	sign := func(nonce []byte) ([]byte, error) {
		_, token := login()
		signature := auth.SignNonce(token, nonce)
		if signature == nil {
			return nil, errNoNonce
		}
		return signature, nil
	}
	return []nats.Option{nats.UserInfoHandler(user), nats.UserJWT(instead, sign)}
}

// diagnose returns advice on an error of the first connect, and whether the error is final, so that retrying is
// useless.
func diagnose(err error) (advice string, final bool) {
	var (
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		alert     tls.AlertError
		record    tls.RecordHeaderError
		path      *fs.PathError
	)
	switch {
	case errors.As(err, &authority):
		return "the server's certificate is not signed by a known authority: set stream.tls.ca", true
	case errors.As(err, &hostname):
		return "the server's certificate is for another name: use a name that it holds in stream.url", true
	case errors.As(err, &verify), errors.As(err, &alert), errors.As(err, &record),
		strings.Contains(err.Error(), "remote error: tls"):
		return "TLS failed: check stream.tls and the server's TLS settings", true
	case errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted):
		return "client and server disagree on TLS: use tls:// in stream.url exactly when the server has TLS", true
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
		errors.Is(err, nats.ErrAccountAuthExpired), errors.Is(err, nats.ErrNkeysNotSupported),
		strings.Contains(strings.ToLower(err.Error()), "authorization violation"),
		strings.Contains(strings.ToLower(err.Error()), "nkeys"):
		return "the server does not accept these credentials: check stream.credentials, stream.nkey, stream.token_file or " +
			"the user in stream.url; a server inside a " +
			"daemon wants producer.token or operator.token of its data folder", true
	case errors.As(err, &path), strings.Contains(err.Error(), "error loading"),
		strings.Contains(err.Error(), "error parsing"),
		strings.Contains(err.Error(), "failed to parse"):
		return "a file that stream.tls, stream.credentials or stream.nkey names cannot be used", true
	}
	return "", false
}

func redactedURLs(urls string) string {
	var out []string
	for u := range strings.SplitSeq(urls, ",") {
		out = append(out, RedactURL(u))
	}
	return strings.Join(out, ", ")
}

// RedactURL returns a server's URL without its password.
func RedactURL(raw string) string {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return "(a URL that cannot be parsed)"
	}
	return u.Redacted()
}
