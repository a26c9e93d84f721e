package objects

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/signer"
)

// ofRole are the credentials of the role that a profile takes on. within are this profile and those that it is a source of.
func (a *awsIdentity) ofRole(ctx context.Context, p awsProfile, within []string) (credentials.Value, error) {
	if p.settings["mfa_serial"] != "" {
		return credentials.Value{}, denied("the profile %q asks for a code of a device (mfa_serial), which is not supported", p.name)
	}
	ask := url.Values{"Action": {"AssumeRole"}, "RoleArn": {p.settings["role_arn"]}, "RoleSessionName": {cmp.Or(p.settings["role_session_name"], "loaderd")}}
	for setting, parameter := range map[string]string{"external_id": "ExternalId", "duration_seconds": "DurationSeconds"} {
		if value := p.settings[setting]; value != "" {
			ask.Set(parameter, value)
		}
	}
	if file := p.settings["web_identity_token_file"]; file != "" {
		return a.byToken(ctx, p, ask, file)
	}
	source, err := a.sourceOf(ctx, p, within)
	if err != nil {
		return source, err
	}
	return a.takeOn(ctx, p, ask, source)
}

// sourceOf are the credentials with which a profile asks for its role.
func (a *awsIdentity) sourceOf(ctx context.Context, p awsProfile, within []string) (v credentials.Value, err error) {
	from := p.settings["source_profile"]
	switch place := p.settings["credential_source"]; {
	case from == p.name:
		v, err = p.own(ctx)
	case from != "":
		var source awsProfile
		if source, err = readProfile(from); err == nil {
			v, err = a.ofProfile(ctx, source, within)
		}
	case place == "Ec2InstanceMetadata":
		return a.ofMachine()
	case place == "EcsContainer":
		return a.ofContainer()
	default: // keys in the environment are used before any profile, and without a role
		return v, denied("the profile %q has role_arn, and nothing to ask for the role with: want source_profile, or credential_source Ec2InstanceMetadata "+
			"or EcsContainer", p.name)
	}
	if errors.Is(err, errNoCredentials) {
		err = denied("the profile %q, source_profile of %q, has no credentials", from, p.name)
	}
	return v, err
}

// ofWebIdentity are the credentials of a role that the environment names, for a token in a file, as pods of a cluster have it.
func (a *awsIdentity) ofWebIdentity(ctx context.Context, p awsProfile) (credentials.Value, error) {
	ask := url.Values{"RoleArn": {os.Getenv("AWS_ROLE_ARN")}, "RoleSessionName": {cmp.Or(os.Getenv("AWS_ROLE_SESSION_NAME"), "loaderd")}}
	return a.byToken(ctx, p, ask, os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"))
}

// byToken asks for a role with a token in a file, which is written anew from time to time.
func (a *awsIdentity) byToken(ctx context.Context, p awsProfile, ask url.Values, file string) (credentials.Value, error) {
	token, err := os.ReadFile(file)
	if err != nil {
		return credentials.Value{}, denied("read the token of the web identity: %w", err)
	}
	ask.Set("Action", "AssumeRoleWithWebIdentity")
	ask.Set("WebIdentityToken", strings.TrimSpace(string(token)))
	return a.takeOn(ctx, p, ask, credentials.Value{})
}

// takeOn asks AWS's Security Token Service, or one that speaks its protocol, for a role. The request is signed where source has keys.
func (a *awsIdentity) takeOn(ctx context.Context, p awsProfile, ask url.Values, source credentials.Value) (credentials.Value, error) {
	region := awsRegion(p)
	ask.Set("Version", credentials.STSVersion)
	form := ask.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, stsEndpoint(p, region)+"/", strings.NewReader(form))
	if err != nil {
		return credentials.Value{}, denied("AWS_ENDPOINT_URL_STS is no address")
	}
	sum := sha256.Sum256([]byte(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	if source.SessionToken != "" {
		r.Header.Set("X-Amz-Security-Token", source.SessionToken)
	}
	if source.AccessKeyID != "" {
		r = signer.SignV4STS(*r, source.AccessKeyID, source.SecretAccessKey, cmp.Or(region, "us-east-1"))
	}
	answer, err := a.client.Do(r)
	var at *url.Error
	if errors.As(err, &at) {
		return credentials.Value{}, &Error{Kind: Down, Err: fmt.Errorf("%s does not answer: %w", r.URL.Host, at.Err)}
	}
	if err != nil {
		return credentials.Value{}, &Error{Kind: Down, Err: err}
	}
	defer answer.Body.Close() // nothing was written
	if answer.StatusCode != http.StatusOK {
		e := denied("%s gives no role %s: %s%s", r.URL.Host, ask.Get("RoleArn"), strings.ToLower(answer.Status), said(answer))
		if answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests {
			e.Kind = Down
		}
		return credentials.Value{}, e
	}
	return roleIn(r.URL.Host, answer)
}

// roleIn reads the credentials in an answer, that of a web identity or the other.
func roleIn(host string, answer *http.Response) (credentials.Value, error) {
	type given struct {
		AccessKeyID     string    `xml:"Credentials>AccessKeyId"`
		SecretAccessKey string    `xml:"Credentials>SecretAccessKey"`
		SessionToken    string    `xml:"Credentials>SessionToken"`
		Expiration      time.Time `xml:"Credentials>Expiration"`
	}
	var all struct {
		Role given `xml:"AssumeRoleResult"`
		Web  given `xml:"AssumeRoleWithWebIdentityResult"`
	}
	if err := xml.NewDecoder(answer.Body).Decode(&all); err != nil {
		return credentials.Value{}, &Error{Kind: Down, Err: fmt.Errorf("%s gives a role that can not be read", host)}
	}
	g := all.Role
	if g.AccessKeyID == "" {
		g = all.Web
	}
	if g.AccessKeyID == "" || g.SecretAccessKey == "" {
		return credentials.Value{}, denied("%s gives a role without keys", host)
	}
	return credentials.Value{AccessKeyID: g.AccessKeyID, SecretAccessKey: g.SecretAccessKey, SessionToken: g.SessionToken, Expiration: g.Expiration,
		SignerType: credentials.SignatureV4}, nil
}

// stsEndpoint is who gives out roles: that of the region, which is nearer and the only one of some.
func stsEndpoint(p awsProfile, region string) string {
	host := "https://sts.amazonaws.com"
	if region != "" {
		host = "https://sts." + region + ".amazonaws.com"
	}
	if strings.HasPrefix(region, "cn-") {
		host += ".cn"
	}
	return strings.TrimSuffix(cmp.Or(os.Getenv("AWS_ENDPOINT_URL_STS"), os.Getenv("AWS_ENDPOINT_URL"), p.settings["endpoint_url"], host), "/")
}
