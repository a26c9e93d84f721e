package auth

import (
	"crypto/hmac"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// sessionPrefix is the prefix of the tokens of logged-in pages.
const sessionPrefix = "page_"

// sessionLasts is the maximum duration of a page's session. It also ends with the daemon and with the token.
const sessionLasts = 7 * 24 * time.Hour

// LogIn returns a bearer token for a page, for a code of SignPage. Each code is valid once.
func (g *Gate) LogIn(code string) (token string, err error) {
	refused := &UnknownError{Message: "the link of the page has been used, or is too old, or is of another daemon",
		Do: "make another one with loaderd page"}
	k := g.known.Load()
	if k.own == nil {
		return "", refused
	}
	page := g.page.Load()
	made, ok := page.verified(*k.own, forPage, code)
	if !ok || !page.fresh(made, pageLasts) || !g.firstUse(made) {
		return "", refused
	}
	until := strconv.FormatInt(time.Now().Add(sessionLasts).Unix(), 10)
	return sessionPrefix + until + "." + base64.RawURLEncoding.EncodeToString(g.session(*k.own, until)), nil
}

// firstUse records that a code has been used, until the code is too old. It reports whether this is its first use.
func (g *Gate) firstUse(made time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for m := range g.used {
		if time.Since(m) > pageLasts+ahead {
			delete(g.used, m)
		}
	}
	if g.used[made] {
		return false
	}
	g.used[made] = true
	return true
}

// session returns the MAC of a page's token. It is specific to this process and to the own token.
func (g *Gate) session(own [32]byte, until string) []byte {
	return mac(own, "session", g.random, until)
}

// inSession reports whether a token is a valid one of LogIn.
func (g *Gate) inSession(own [32]byte, token string) bool {
	until, text, _ := strings.Cut(strings.TrimPrefix(token, sessionPrefix), ".")
	end, err := strconv.ParseInt(until, 10, 64)
	if err != nil || !strings.HasPrefix(token, sessionPrefix) || time.Now().Unix() > end {
		return false
	}
	sent, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && hmac.Equal(sent, g.session(own, until))
}
