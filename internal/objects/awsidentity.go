package objects

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

const deniedS3 = "credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE and ~/.aws, a web identity, or the role of the container " +
	"or machine; they need s3:ListBucket on the bucket and s3:GetObject below it"

const (
	// nobodyFor is for how long it counts that there are no credentials.
	nobodyFor = 5 * time.Minute
	// identityPatience is how long finding out may take.
	identityPatience = 30 * time.Second
	// renewal is how long before their end credentials are asked for anew.
	renewal = 5 * time.Minute
)

// awsIdentity finds out who asks S3, where AWS's own programs look, in their order, and remembers it, also that it is nobody. It implements
// credentials.Provider; its errors are *Error without a URL. One call is made at a time.
type awsIdentity struct {
	client *http.Client
	until  time.Time // when it is to be found out again; zero: never
	role   bool      // the machine has given one, so this is no machine without
}

// IsExpired implements credentials.Provider.
func (a *awsIdentity) IsExpired() bool { return !a.until.IsZero() && time.Now().After(a.until) }

// Retrieve implements credentials.Provider.
func (a *awsIdentity) Retrieve() (credentials.Value, error) { return a.RetrieveWithCredContext(nil) }

// RetrieveWithCredContext implements credentials.Provider.
func (a *awsIdentity) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	ctx, cancel := context.WithTimeout(context.Background(), identityPatience)
	defer cancel()
	v, err := a.find(ctx)
	if err != nil {
		return v, err
	}
	switch left := time.Until(v.Expiration); {
	case v.SignerType == credentials.SignatureAnonymous:
		a.until = time.Now().Add(nobodyFor)
	case v.Expiration.IsZero():
		a.until = time.Time{}
	default:
		a.until = v.Expiration.Add(-min(renewal, left/2))
	}
	return v, nil
}

// find asks the environment, the profile, a web identity, the container and the machine. What is set up and fails is an error: nothing else is tried then.
func (a *awsIdentity) find(ctx context.Context) (credentials.Value, error) {
	if v, err := keys(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), os.Getenv("AWS_SESSION_TOKEN")); err != nil || v.AccessKeyID != "" {
		return v, err
	}
	named := namedProfile()
	p, err := readProfile(named)
	if err != nil {
		return credentials.Value{}, denied("%w", err)
	}
	if named != "" && !p.found {
		return credentials.Value{}, denied("the profile %q, which the environment names, stands neither in ~/.aws/config nor in ~/.aws/credentials", named)
	}
	if v, err := a.ofProfile(ctx, p, nil); !errors.Is(err, errNoCredentials) {
		return v, err
	}
	if os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" {
		return a.ofWebIdentity(ctx, p)
	}
	if inContainer() {
		return a.ofContainer()
	}
	if v, err := a.ofMachine(); err == nil || a.role {
		return v, err
	}
	if named != "" {
		return credentials.Value{}, denied("the profile %q has no credentials (a pair of keys, credential_process or role_arn), and this machine has no role", named)
	}
	return credentials.Value{SignerType: credentials.SignatureAnonymous}, nil
}

// keys are credentials as they are written; none where all are empty.
func keys(id, secret, token string) (credentials.Value, error) {
	if (id == "") != (secret == "") {
		return credentials.Value{}, denied("only one of a pair of keys is there: want aws_access_key_id and aws_secret_access_key, in the environment or a profile")
	}
	return credentials.Value{AccessKeyID: id, SecretAccessKey: secret, SessionToken: token, SignerType: credentials.SignatureV4}, nil
}

// denied is an error of credentials that asking again does not mend.
func denied(format string, args ...any) *Error {
	return &Error{Kind: Denied, Err: fmt.Errorf(format, args...), hint: deniedS3}
}
