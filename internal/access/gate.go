package access

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// minToken is the least length of a token that an operator chooses: a shorter one is found by trying.
const minToken = 16

// Config says by what callers are known.
type Config struct {
	// TokenFile holds one bearer token, with which everything is permitted.
	TokenFile string
	// Identities is a file of identities.
	Identities string
	// Certificates says that every caller has a certificate that was verified. Without identities all of them may do everything.
	Certificates bool
}

// Gate knows who is let in. Its methods may be called from several goroutines.
type Gate struct {
	config Config
	known  atomic.Pointer[known]
}

// known are the identities of one reading of the files.
type known struct {
	tokens, certificates map[string]Identity // by the token's hash; by name
	soonest              time.Time           // when the next one expires; zero: never
}

// Open reads the files of a configuration.
func Open(c Config) (*Gate, error) {
	g := &Gate{config: c}
	return g, g.Reload()
}

// Reload reads the files again. After an error those stand that stood before.
func (g *Gate) Reload() error {
	k := &known{map[string]Identity{}, map[string]Identity{}, time.Time{}}
	if g.config.Identities != "" {
		all, err := ReadFile(g.config.Identities)
		if err != nil {
			return err
		}
		for _, i := range all {
			k.add(i)
		}
	}
	if g.config.TokenFile != "" {
		token, err := ReadToken(g.config.TokenFile)
		if err != nil {
			return err
		}
		if len(token) < minToken {
			return fmt.Errorf("read bearer token: %s has a token of %d characters: use %d at least, as openssl rand -hex 16 makes them", g.config.TokenFile, len(token), minToken)
		}
		k.add(Identity{Name: "token_file", Role: Operate, SHA256: hashOf(token), Shared: true})
	}
	g.known.Store(k)
	return nil
}

func (k *known) add(i Identity) {
	if i.SHA256 != "" {
		k.tokens[strings.ToLower(i.SHA256)] = i
	}
	if i.Certificate != "" {
		k.certificates[i.Certificate] = i
	}
	if !i.Expires.IsZero() && (k.soonest.IsZero() || i.Expires.Before(k.soonest)) {
		k.soonest = i.Expires
	}
}

// Asks says whether callers have to say who they are.
func (g *Gate) Asks() bool { return g.config.TokenFile != "" || g.config.Identities != "" }

// Files are the files that Reload reads.
func (g *Gate) Files() []string { return given(g.config.TokenFile, g.config.Identities) }

func given(files ...string) []string {
	return slices.DeleteFunc(files, func(f string) bool { return f == "" })
}

// Expires is when the next identity expires; zero when none does.
func (g *Gate) Expires() time.Time { return g.known.Load().soonest }

// UnknownError says that who calls is not known.
type UnknownError struct{ Message, Do string }

func (e *UnknownError) Error() string { return e.Message + ": " + e.Do }

// Identify finds out who calls, by the headers authorization of the call, else by the certificate that was verified. It looks hashes up: how long that
// takes says nothing of a token. It returns *UnknownError for who is not known.
func (g *Gate) Identify(authorization []string, verified *x509.Certificate) (Identity, error) {
	if verified != nil && time.Now().After(verified.NotAfter) { // it was valid when the connection was made
		return Identity{}, &UnknownError{Message: "the certificate of the connection has expired on " + verified.NotAfter.Format(time.DateOnly), Do: "connect with a new one"}
	}
	if !g.Asks() {
		who := Identity{Role: Operate}
		if g.config.Certificates && verified != nil {
			who.Name = verified.Subject.CommonName
		}
		return who, nil
	}
	k, now := g.known.Load(), time.Now()
	found, ok := Identity{}, false
	for _, v := range authorization {
		scheme, token, _ := strings.Cut(v, " ")
		if i, is := k.tokens[hashOf(strings.TrimSpace(token))]; is && strings.EqualFold(scheme, "bearer") {
			found, ok = i, true
		}
	}
	if !ok && verified != nil && len(authorization) == 0 {
		for _, name := range namesOf(verified) {
			if i, is := k.certificates[name]; is && name != "" {
				found, ok = i, true
				break
			}
		}
	}
	unknown := &UnknownError{Message: "the call has no bearer token",
		Do: "send the header authorization: Bearer TOKEN with a token of the daemon's (loaderd token create)"}
	switch {
	case ok && !found.Expires.IsZero() && now.After(found.Expires):
		unknown.Message = "identity " + found.Name + " has expired on " + found.Expires.Format(time.DateOnly)
		unknown.Do = "make another one (loaderd token create)"
	case ok:
		return found, nil
	case len(authorization) > 0:
		unknown.Message = "the call's bearer token is wrong"
	case verified != nil && len(k.certificates) > 0:
		unknown.Message = "no identity has a name of the call's certificate"
	}
	return Identity{}, unknown
}
