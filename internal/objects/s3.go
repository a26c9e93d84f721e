package objects

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// s3Bucket is a bucket of S3, or of a server with its protocol.
type s3Bucket struct {
	access *awsAccess
	bucket string

	mu     sync.Mutex
	region string // of the bucket, once known
}

// defaultRegion is the region of requests if neither the configuration nor S3 provides another one.
const defaultRegion = "us-east-1"

// client returns a client of the bucket.
func (b *s3Bucket) client(ctx context.Context) (*s3.Client, error) {
	c, err := b.access.getConfig(ctx)
	if err != nil {
		return nil, b.withURL("", err)
	}
	client := s3.NewFromConfig(c, s3Options)
	if client.Options().BaseEndpoint != nil { // another server, without regions
		return client, nil
	}
	c.Region = b.regionOf(ctx, client)
	return s3.NewFromConfig(c, s3Options), nil
}

func s3Options(o *s3.Options) {
	o.UsePathStyle = o.BaseEndpoint != nil
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired // ranges have no checksum
}

// regionOf returns the region of the bucket, which S3 returns even if it refuses a request. If S3 does not respond,
// it is the region of the configuration.
func (b *s3Bucket) regionOf(ctx context.Context, client *s3.Client) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.region != "" {
		return b.region
	}
	head, err := client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &b.bucket})
	var response *awshttp.ResponseError
	switch {
	case err == nil:
		b.region = aws.ToString(head.BucketRegion)
	case errors.As(err, &response) && response.Response != nil:
		b.region = response.Response.Header.Get("X-Amz-Bucket-Region")
	}
	return cmp.Or(b.region, client.Options().Region)
}

var s3BucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{1,61}[A-Za-z0-9]$`)

const maxS3Key = 1024

// checkS3 returns an error for names that are invalid in S3, without a request.
func checkS3(a address) error {
	switch {
	case !s3BucketName.MatchString(a.bucket):
		return errors.New("the name of a bucket has 3 to 63 letters, digits, dots and hyphens, and begins and ends with a " +
			"letter or digit")
	case len(literalPrefix(a.name)) > maxS3Key:
		return fmt.Errorf("the name of an object in S3 is not longer than %d bytes", maxS3Key)
	case !utf8.ValidString(a.name):
		return errors.New("the name of an object in S3 is valid UTF-8")
	}
	return nil
}

func (b *s3Bucket) list(ctx context.Context, prefix string, yield func(string, Object) error) error {
	client, err := b.client(ctx)
	if err != nil {
		return err
	}
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: &prefix,
		EncodingType: types.EncodingTypeUrl})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return b.convertError(ctx, client, "", err)
		}
		if page.Name == nil {
			return b.withURL("", &Error{Kind: Invalid, Err: errors.New("the answer is no listing of S3")})
		}
		for _, o := range page.Contents {
			name := aws.ToString(o.Key)
			if page.EncodingType == types.EncodingTypeUrl {
				name, err = url.QueryUnescape(name)
			}
			if err != nil || o.Size == nil || *o.Size < 0 {
				return b.withURL("", &Error{Kind: Invalid, Err: fmt.Errorf("the listing has no name and size of %q", name)})
			}
			if err := yield(name, Object{Size: *o.Size, Version: strings.Trim(aws.ToString(o.ETag), `"`)}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *s3Bucket) get(ctx context.Context, name string, o Object, from, to int64) (body rangeBody, err error) {
	client, err := b.client(ctx)
	if err != nil {
		return body, err
	}
	in := &s3.GetObjectInput{Bucket: &b.bucket, Key: &name, Range: aws.String(byteRange(from, to))}
	if o.Version != "" {
		in.IfMatch = aws.String(`"` + o.Version + `"`)
	}
	answer, err := client.GetObject(ctx, in)
	if err != nil {
		return body, b.convertError(ctx, client, name, err)
	}
	if err := checkTag(o, strings.Trim(aws.ToString(answer.ETag), `"`)); err != nil {
		return body, errors.Join(err, answer.Body.Close())
	}
	return newRangeBody(answer.Body, o, from, to, aws.ToString(answer.ContentRange), lengthOf(answer.ContentLength))
}

// lengthOf returns the length of a response, -1 if it is not known.
func lengthOf(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// withURL adds the address of the bucket or of an object in it to an error.
func (b *s3Bucket) withURL(name string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	located := *e
	if located.URL = "s3://" + b.bucket; name != "" {
		located.URL += "/" + name
	}
	return &located
}

// convertError converts an error of the library.
func (b *s3Bucket) convertError(ctx context.Context, client *s3.Client, name string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	host := "S3"
	if endpoint := client.Options().BaseEndpoint; endpoint != nil {
		if u, err := url.Parse(*endpoint); err == nil {
			host = u.Host
		}
	}
	var response *awshttp.ResponseError
	if !errors.As(err, &response) {
		return b.withURL(name, noResponseError(host, err))
	}
	status, code := response.HTTPStatusCode(), awsErrorCode(err)
	if status == 0 || status == http.StatusOK || status == http.StatusPartialContent {
		return b.withURL(name, noResponseError(host, err))
	}
	e := &Error{Err: fmt.Errorf("%s answers %d %s", host, status, code)}
	setKind(e, status, deniedS3)
	switch code {
	case "NoSuchBucket":
		e.Kind, e.Err = NotFound, errors.New("there is no such bucket")
	case "NoSuchKey":
		e.Kind, e.Err = NotFound, errors.New("the object no longer exists")
	case "SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable":
		e.Kind = Unavailable
	case "PreconditionFailed", "InvalidRange":
		e.Err = errors.New("the object has changed since it was listed")
	case "ExpiredToken", "RequestTimeTooSkewed", "AuthorizationHeaderMalformed":
		e.Kind, e.hint = Denied, deniedS3
	}
	return b.withURL(name, e)
}

// noResponseError returns the error for a request without a complete response. A missing or truncated response is
// temporary; a response that violates the protocol is permanent.
func noResponseError(host string, err error) *Error {
	var network net.Error
	var text *xml.SyntaxError
	switch {
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &text) &&
		text.Msg == "unexpected EOF":
		var at *url.Error
		if errors.As(err, &at) { // it contains the whole address
			err = at.Err
		}
		return &Error{Kind: Unavailable, Err: fmt.Errorf("%s does not answer: %w", host, err)}
	}
	return &Error{Kind: Invalid, Err: err}
}

// byteRange returns the Range header for the bytes [from, to).
func byteRange(from, to int64) string { return fmt.Sprintf("bytes=%d-%d", from, to-1) }
