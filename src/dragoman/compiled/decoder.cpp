// A trained model without Python or torch: the encoder, and the decoder step by step. `dragoman.model` is its
// definition. Weights are packed once; a sentence's keys are computed once, and rows of a beam share them.
//
// Start reading at the end, with the functions that Python calls. Functions that can fail return a `Status`.

#include <stdexcept>

#include "search.h"

namespace {

// `_Shape` of decoding/compiled_stepper.py
struct Shape {
    int64_t format, d_model, heads, kv_heads, d_ff, encoder_layers, decoder_layers, vocabulary, cross;
    int64_t rms, pre, final_norm, embedding_norm, activation, positions;  // 0 sinusoidal, 1 learned, 2 rotary
    int64_t position_offset;
    double position_base;
    float epsilon, embedding_scale;
};

enum Positions : int64_t { SINUSOIDAL, LEARNED, ROTARY };

// Reads weights in the order of possible_weights of model/shapes.py. What `next` returns is valid until its next call if
// it is a matrix to pack, and as long as the model otherwise.
class Reader {
    void (*next)(Weights *);
    Format format;
    Arena &arena;

  public:
    Reader(void (*next_)(Weights *), Format format_, Arena &arena_) : next(next_), format(format_), arena(arena_) {}
    Weights weights() {
        Weights read{};
        next(&read);
        return read;
    }
    const float *vector() { return (const float *)weights().data; }
    Norm norm() {
        const float *weight = vector();
        return {weight, vector()};
    }
    // Appends `count` matrices with their biases; skips those that the model lacks.
    void append(Matrix &to, int count) {
        for (; count > 0; --count) {
            const Weights part = weights();
            if (part.data) to.append(part);
            if (const float *bias = vector()) to.set_bias(bias, part.outputs);
        }
    }
    // Packs `count` matrices as one.
    Matrix matrix(int64_t outputs, int64_t inner, int count = 1) {
        Matrix made(arena, format, outputs, inner);
        append(made, count);
        return made;
    }
};

struct Embedding {
    Weights table, learned;  // no table: it is the matrix `output`
    Norm norm;
};

struct Block {
    Norm self_norm, cross_norm, feed_norm;
    Matrix self, self_output, cross_query, cross_output, inner, outer;
};

struct Stack {
    Embedding embedding;
    std::vector<Block> blocks;
    Norm final_norm;
};

struct Model {
    Shape of;
    Arena arena;
    int64_t d_head, key_width, wide;  // widths of one head, of all keys of a token, and of a row padded to whole panels
    Stack encoder, decoder;
    Matrix cross_keys, output;  // cross_keys: keys and values, layer by layer
    bool gated;

    Model(const Shape &shape, void (*next)(Weights *)) : of(shape) {
        d_head = of.d_model / of.heads, key_width = of.kv_heads * d_head, wide = rounded_up(of.d_model, PANEL);
        gated = of.activation == SWIGLU || of.activation == GEGLU;
        Reader read(next, Format(of.format), arena);
        if (of.cross) cross_keys = Matrix(arena, Format(of.format), of.decoder_layers * 2 * key_width, of.d_model);
        if (of.encoder_layers) encoder = stack(read, of.encoder_layers, false);
        decoder = stack(read, of.decoder_layers, of.cross);
        output = read.matrix(of.vocabulary, of.d_model);
    }

  private:
    // Reads a stack. The keys and values of cross-attention are added to `cross_keys`.
    Stack stack(Reader &read, int64_t layers, bool cross) {
        const int64_t width = of.d_model;
        Stack made;
        made.embedding = {read.weights(), read.weights(), read.norm()};
        for (int64_t layer = 0; layer < layers; ++layer) {
            Block block;
            block.self_norm = read.norm(), block.self = read.matrix(width + 2 * key_width, width, 3);
            block.self_output = read.matrix(width, width);
            if (cross) {
                block.cross_norm = read.norm(), block.cross_query = read.matrix(width, width);
                read.append(cross_keys, 2);
                block.cross_output = read.matrix(width, width);
            }
            block.feed_norm = read.norm(), block.inner = read.matrix(of.d_ff * (gated ? 2 : 1), width, 2);
            block.outer = read.matrix(width, of.d_ff);
            made.blocks.push_back(std::move(block));
        }
        made.final_norm = read.norm();
        return made;
    }
};

constexpr int64_t CHUNK = 8;  // tokens of one sentence whose keys are adjacent in each layer

// Memory for chunks of keys and values, reused after its sentence has left.
class Pool {
    std::vector<Buffer<float>> slabs;
    std::vector<float *> free;
    int64_t size;

  public:
    explicit Pool(int64_t size_) : size(rounded_up(size_, PANEL)) {}
    float *take() {
        if (free.empty()) {
            const int64_t chunks = std::max<int64_t>(1, (int64_t(1) << 20) / size);  // slabs of 4 MiB
            free.reserve(free.capacity() + chunks);
            slabs.emplace_back();
            float *slab = slabs.back().take(chunks * size);
            for (int64_t i = chunks; i > 0; --i) free.push_back(slab + (i - 1) * size);
        }
        float *chunk = free.back();
        free.pop_back();
        return chunk;
    }
    void give_back(const std::vector<float *> &chunks) { free.insert(free.end(), chunks.begin(), chunks.end()); }
};

// The encoded source. Equal sentences that were admitted one after the other, such as samples, share it.
struct Source {
    Buffer<float> cross;  // layer by layer, keys and values of each token
    std::vector<float *> keys;  // of each token in the first layer
};

// State shared by all rows of one sentence: its source, and the keys of all tokens that its rows have written.
struct Sentence {
    std::shared_ptr<Source> source;
    std::vector<float *> chunks;
    int64_t used = CHUNK;  // tokens in the last chunk
    int64_t rows = 0;

    // Returns the address for the keys and values of one more token, in the first layer.
    float *next(Pool &pool, int64_t size) {
        if (used == CHUNK) chunks.push_back(pool.take()), used = 0;
        return chunks.back() + used++ * size;
    }
};

struct Row {
    Sentence *sentence;
    std::vector<float *> keys;  // of each token so far
};

// The active rows of one search on a model, with work buffers. Only one thread at a time may use it.
class Decoder {
    static constexpr int64_t AT_A_TIME = 64;  // rows of logits

    const Model &model;
    Team team;
    Angles angles;
    Pool pool;
    std::vector<std::unique_ptr<Sentence>> sentences;
    std::vector<Row> rows;
    Converter convert;
    Buffer<float> x_buffer, h_buffer, wide_buffer, mixed_buffer, scores_buffer, sequences_buffer, logits_buffer;

    // The tokens of one pass.
    struct Token {
        int64_t id, position;
        Row *row;          // null in the encoder
        float *own;        // the token's keys; null in the encoder
    };
    std::vector<Token> tokens;

    // Consecutive tokens that attend to the same sequence.
    struct Neighbours {
        const Sequence *to;
        int64_t first, count;
    };
    std::vector<Neighbours> neighbours;

  public:
    Decoder(const Model &model_, int threads_)
        : model(model_), team(threads_),
          angles(model.of.positions == ROTARY ? model.d_head : model.of.d_model, model.of.position_base,
                 model.of.positions == ROTARY),
          pool(CHUNK * 2 * model.key_width * model.of.decoder_layers) {}

    int64_t count() const { return int64_t(rows.size()); }
    void use_threads(int count) { team.threads = count; }

    // Adds a row for each source, after the active rows; without an encoder the rows are empty.
    void admit(const int64_t *ids, const int64_t *lengths, int64_t count) {
        std::vector<std::unique_ptr<Sentence>> fresh;
        std::vector<Unread> unread;
        for (int64_t i = 0; i < count; ids += lengths[i++]) {
            fresh.push_back(std::make_unique<Sentence>());
            fresh[i]->rows = 1;
            if (i > 0 && lengths[i] == lengths[i - 1] && std::equal(ids, ids + lengths[i], ids - lengths[i])) {
                fresh[i]->source = fresh[i - 1]->source;
                continue;
            }
            fresh[i]->source = std::make_shared<Source>();
            unread.push_back({ids, lengths[i], fresh[i]->source.get()});
        }
        if (model.of.cross) read(unread);
        rows.reserve(rows.size() + count), sentences.reserve(sentences.size() + count);
        for (auto &sentence : fresh) {
            rows.push_back({sentence.get(), {}});
            sentences.push_back(std::move(sentence));
        }
    }

    // Keeps these rows, in this order.
    void select(const int64_t *chosen, int64_t count) {
        std::vector<Row> kept;
        kept.reserve(count);
        std::vector<int64_t> left(rows.size(), 0);
        for (int64_t i = 0; i < count; ++i) ++left[chosen[i]];
        for (auto &row : rows) --row.sentence->rows;
        for (int64_t i = 0; i < count; ++i) {
            Row &row = rows[chosen[i]];
            ++row.sentence->rows;
            if (--left[chosen[i]]) kept.push_back(row);
            else kept.push_back({row.sentence, std::move(row.keys)});
        }
        rows = std::move(kept);
        auto gone = [&](auto &sentence) {
            if (!sentence->rows) pool.give_back(sentence->chunks);
            return !sentence->rows;
        };
        sentences.erase(std::remove_if(sentences.begin(), sentences.end(), gone), sentences.end());
    }

    // Appends the next tokens of each row: `counts` of them, or one. Returns the decoder's output for each token.
    const float *advance(const int64_t *ids, const int64_t *counts) {
        tokens.clear();
        for (size_t r = 0; r < rows.size(); ++r)
            for (int64_t i = 0; i < (counts ? counts[r] : 1); ++i) {
                float *own = rows[r].sentence->next(pool, 2 * model.key_width);
                rows[r].keys.push_back(own);
                tokens.push_back({*ids++, int64_t(rows[r].keys.size()) - 1, &rows[r], own});
            }
        const Stack &stack = model.decoder;
        float *x = embed(stack.embedding);
        for (size_t layer = 0; layer < stack.blocks.size(); ++layer) {
            const Block &block = stack.blocks[layer];
            const int64_t size = 2 * model.key_width, offset = int64_t(layer) * size;
            sublayer(x, block.self_norm, block.self_output, [&](const float *h) {
                const float *wide = project(block.self, h);
                for (size_t i = 0; i < tokens.size(); ++i)
                    std::memcpy(tokens[i].own + offset * CHUNK, wide + i * block_row(block.self) + model.of.d_model,
                                size * sizeof(float));
                return mix(wide, block_row(block.self), [&](const Token &token) {
                    return Keys{token.row->keys.data(), token.position + 1, offset * CHUNK, model.key_width};
                });
            });
            if (model.of.cross)
                sublayer(x, block.cross_norm, block.cross_output, [&](const float *h) {
                    const float *query = product(block.cross_query, h);
                    return mix(query, block_row(block.cross_query), [&](const Token &token) {
                        auto &keys = token.row->sentence->source->keys;
                        const int64_t count = int64_t(keys.size());
                        return Keys{keys.data(), count, offset * count, model.key_width};
                    });
                });
            feed_forward(x, block);
        }
        return finish(x, stack);
    }

    // Computes the logits of some tokens of `advance`, and their log-sum-exp (`norms`).
    void project(const float *hidden, int64_t first, int64_t count, float *logits, float *norms) {
        const int64_t vocabulary = model.of.vocabulary, padded = block_row(model.output);
        for (int64_t done = 0, some; done < count; done += some, logits += some * vocabulary, norms += some) {
            some = std::min(AT_A_TIME, count - done);
            // Rows of logits are contiguous; rows that end within a panel are computed in a buffer first.
            float *made = vocabulary == padded ? logits : logits_buffer.take(AT_A_TIME * padded);
            const float *from = hidden + (first + done) * model.wide;
            multiply(model.output, convert(model.output, from, model.wide, some), made, padded, some, false, team);
            team.share(some, 1, true, [&](int64_t i, int) {
                const float *row = made + i * padded;  // ends with a whole panel, unlike a row of `logits`
                norms[i] = log_sum_exp(row, vocabulary);
                if (made != logits) std::memcpy(logits + i * vocabulary, row, vocabulary * sizeof(float));
            });
        }
    }

    // Computes the log-probability of the label of each token of `advance`.
    void judge(const float *hidden, const int64_t *labels, float *log_probs) {
        std::vector<float> norms(AT_A_TIME);
        Buffer<float> logits;
        const int64_t vocabulary = model.of.vocabulary;
        for (int64_t done = 0, some; done < total(); done += some) {
            some = std::min(AT_A_TIME, total() - done);
            float *rows = logits.take(AT_A_TIME * vocabulary);
            project(hidden, done, some, rows, norms.data());
            for (int64_t i = 0; i < some; ++i) {
                check(labels[done + i], vocabulary);
                log_probs[done + i] = rows[i * vocabulary + labels[done + i]] - norms[i];
            }
        }
    }

  private:
    static void check(int64_t index, int64_t size) {
        if (index < 0 || index >= size) throw std::out_of_range("a token or position that the model does not have");
    }

    static int64_t block_row(const Matrix &matrix) { return matrix.panels * PANEL; }

    // A source that is not encoded yet.
    struct Unread {
        const int64_t *ids;
        int64_t length;
        Source *into;
    };

    // Encodes all sources, in batches.
    void read(const std::vector<Unread> &sources) {
        for (auto first = sources.begin(), next = first; first != sources.end(); first = next) {
            int64_t together = 0;
            for (; next != sources.end() && (next == first || together + next->length <= 192); ++next)
                together += next->length;
            encode(&*first, next - first);
        }
    }

    void encode(const Unread *sources, int64_t count) {
        tokens.clear();
        std::vector<int64_t> owner;  // index of each token's source
        const int64_t width = model.key_width;
        int64_t size = 0;
        for (int64_t i = 0; i < count; size += Sequence::size(sources[i++].length, width))
            for (int64_t j = 0; j < sources[i].length; ++j)
                tokens.push_back({sources[i].ids[j], j, nullptr, nullptr}), owner.push_back(i);
        const Stack &stack = model.encoder;
        float *x = embed(stack.embedding);
        std::vector<Sequence> seen;
        for (const Block &block : stack.blocks) {
            sublayer(x, block.self_norm, block.self_output, [&](const float *h) {
                const int64_t row = block_row(block.self);
                const float *wide = project(block.self, h), *keys = wide + model.of.d_model;
                float *memory = sequences_buffer.take(size);
                seen.clear();
                for (int64_t i = 0; i < count; ++i) {
                    const int64_t length = sources[i].length;
                    seen.emplace_back(keys, row, length, width, memory);
                    keys += length * row, memory += Sequence::size(length, width);
                }
                return mix_sequences(wide, row, [&](int64_t i) { return &seen[owner[i]]; });
            });
            feed_forward(x, block);
        }
        const float *keys = product(model.cross_keys, finish(x, stack));
        const int64_t layers = model.of.decoder_layers, pair = 2 * width;
        for (int64_t i = 0; i < count; ++i) {
            const int64_t length = sources[i].length;
            float *cross = sources[i].into->cross.take(layers * length * pair);
            for (int64_t j = 0; j < length; ++j, keys += block_row(model.cross_keys)) {
                sources[i].into->keys.push_back(cross + j * pair);
                for (int64_t layer = 0; layer < layers; ++layer)
                    std::memcpy(cross + (layer * length + j) * pair, keys + layer * pair, pair * sizeof(float));
            }
        }
    }

    int64_t total() const { return int64_t(tokens.size()); }

    float *embed(const Embedding &embedding) {
        int64_t furthest = 0;
        for (auto &token : tokens) {
            check(token.id, embedding.table.data ? embedding.table.outputs : model.output.outputs);
            furthest = std::max(furthest, token.position + 1);
        }
        if (model.of.positions == LEARNED) check(furthest, embedding.learned.outputs + 1);  // `furthest` is a count
        else angles.reach(furthest + model.of.position_offset);
        const int64_t width = model.of.d_model;
        float *x = x_buffer.take(total() * model.wide);
        for (int64_t i = 0; i < total(); ++i) {
            float *to = x + i * model.wide;
            const Token &token = tokens[i];
            if (embedding.table.data) embedding.table.read(token.id, to);
            else model.output.unpack(token.id, to);
            const float *place = model.of.positions == SINUSOIDAL ? angles.at(token.position + model.of.position_offset)
                                 : model.of.positions == LEARNED  ? (const float *)embedding.learned.data + token.position * width
                                                                  : nullptr;
            for (int64_t j = 0; j < width; ++j) to[j] = to[j] * model.of.embedding_scale + (place ? place[j] : 0.0f);
            std::fill(to + width, to + model.wide, 0.0f);
            if (model.of.embedding_norm)
                normalise(to, to, width, embedding.norm, model.of.rms, model.of.epsilon);
        }
        return x;
    }

    // Computes concatenated queries, keys and values, rotated if positions are rotary.
    float *project(const Matrix &matrix, const float *h) {
        float *wide = product(matrix, h);
        if (model.of.positions == ROTARY)
            for (int64_t i = 0; i < total(); ++i)
                rotate(wide + i * block_row(matrix), model.of.heads + model.of.kv_heads, model.d_head,
                       angles.at(tokens[i].position));
        return wide;
    }

    float *product(const Matrix &matrix, const float *h) {
        float *wide = wide_buffer.take(total() * block_row(matrix));
        multiply(matrix, convert(matrix, h, model.wide, total()), wide, block_row(matrix), total(), false, team);
        return wide;
    }

    // Computes the attention of every token to the keys that `keys_of` returns.
    template <class KeysOf> const float *mix(const float *queries, int64_t row, KeysOf keys_of) {
        int64_t longest = 0;
        for (auto &token : tokens) longest = std::max(longest, keys_of(token).count);
        const int64_t padded = rounded_up(longest, PANEL);
        float *mixed = mixed_buffer.take(total() * model.wide);
        float *scores = scores_buffer.take(team.threads * model.of.heads * padded);
        team.share(total(), 4, total() * longest * model.of.d_model > WORTH_SHARING, [&](int64_t i, int member) {
            attend(queries + i * row, mixed + i * model.wide, keys_of(tokens[i]), model.of.heads, model.of.kv_heads,
                   model.d_head, scores + member * model.of.heads * padded);
        });
        return mixed;
    }

    // Computes the attention of every token to the sequence that `sequence_of` returns; neighbours may share one.
    template <class SequenceOf> const float *mix_sequences(const float *queries, int64_t row, SequenceOf sequence_of) {
        int64_t longest = 0, work = 0;
        neighbours.clear();
        for (int64_t i = 0; i < total(); ++i) {
            const Sequence *sequence = sequence_of(i);
            longest = std::max(longest, sequence->count), work += sequence->count * model.of.d_model;
            if (neighbours.empty() || neighbours.back().to != sequence || neighbours.back().count == TOGETHER)
                neighbours.push_back({sequence, i, 0});
            ++neighbours.back().count;
        }
        const int64_t size = MOST_SCORES * rounded_up(longest, PANEL);
        float *mixed = mixed_buffer.take(total() * model.wide), *scores = scores_buffer.take(team.threads * size);
        team.share(int64_t(neighbours.size()), 4, work > WORTH_SHARING, [&](int64_t g, int member) {
            const Neighbours &group = neighbours[g];
            float *own = scores + member * size;
            Queries rows{queries + group.first * row, row, mixed + group.first * model.wide, model.wide};
            if (group.count == TOGETHER) attend<TOGETHER>(rows, *group.to, model.of.heads, model.d_head, own);
            else
                for (int64_t i = 0; i < group.count; ++i, rows.from += row, rows.to += model.wide)
                    attend<1>(rows, *group.to, model.of.heads, model.d_head, own);
        });
        return mixed;
    }

    // Computes the residual path around a sublayer, which ends with its output projection.
    template <class Work> void sublayer(float *x, Norm norm, const Matrix &output, Work work) {
        const float *inner = work(model.of.pre ? normalised(x, norm) : x);
        multiply(output, convert(output, inner, model.wide, total()), x, model.wide, total(), true, team);
        if (!model.of.pre) normalise_all(x, x, norm);
    }

    void feed_forward(float *x, const Block &block) {
        const float *h = model.of.pre ? normalised(x, block.feed_norm) : x;
        const int64_t row = block_row(block.inner);
        float *wide = product(block.inner, h);
        for (int64_t i = 0; i < total(); ++i) activate(wide + i * row, model.of.d_ff, Activation(model.of.activation));
        multiply(block.outer, convert(block.outer, wide, row, total()), x, model.wide, total(), true, team);
        if (!model.of.pre) normalise_all(x, x, block.feed_norm);
    }

    float *normalised(const float *x, Norm norm) {
        float *h = h_buffer.take(total() * model.wide);
        normalise_all(x, h, norm);
        return h;
    }

    void normalise_all(const float *x, float *to, Norm norm) {
        for (int64_t i = 0; i < total(); ++i)
            normalise(x + i * model.wide, to + i * model.wide, model.of.d_model, norm, model.of.rms, model.of.epsilon);
    }

    const float *finish(float *x, const Stack &stack) {
        if (model.of.final_norm) normalise_all(x, x, stack.final_norm);
        return x;
    }
};

enum Status : int64_t { DONE, NO_MEMORY, NO_SUCH_INDEX, FAILED };

// Runs `work` and returns its status. An exception that leaves C++ would end the process.
template <class Work> Status status_of(Work work) {
    try {
        work();
        return DONE;
    } catch (const std::bad_alloc &) {
        return NO_MEMORY;
    } catch (const std::out_of_range &) {
        return NO_SUCH_INDEX;
    } catch (...) {
        return FAILED;
    }
}

}  // namespace

extern "C" {

// `next` is called once for each weight, in order.
Model *model_open(const Shape *shape, void (*next)(Weights *)) {
    Model *model = nullptr;
    status_of([&] { model = new Model(*shape, next); });
    return model;
}

void model_close(Model *model) { delete model; }

Decoder *decoder_open(const Model *model, int64_t threads) {
    Decoder *decoder = nullptr;
    status_of([&] { decoder = new Decoder(*model, int(threads)); });
    return decoder;
}

// Sets the number of threads. Results are the same for any number.
void decoder_use_threads(Decoder *decoder, int64_t threads) { decoder->use_threads(int(threads)); }

void decoder_close(Decoder *decoder) { delete decoder; }

int64_t decoder_admit(Decoder *decoder, const int64_t *ids, const int64_t *lengths, int64_t count) {
    return status_of([&] { decoder->admit(ids, lengths, count); });
}

int64_t decoder_select(Decoder *decoder, const int64_t *rows, int64_t count) {
    return status_of([&] { decoder->select(rows, count); });
}

// Appends the next token of each row. `logits` (rows, V) receives the logits of the following token, and `norms` (rows)
// their log-sum-exp.
int64_t decoder_advance(Decoder *decoder, const int64_t *ids, float *logits, float *norms) {
    return status_of([&] { decoder->project(decoder->advance(ids, nullptr), 0, decoder->count(), logits, norms); });
}

// Appends `counts` tokens to the rows, row by row.
int64_t decoder_read(Decoder *decoder, const int64_t *ids, const int64_t *counts) {
    return status_of([&] { decoder->advance(ids, counts); });
}

// Appends `counts` tokens to the rows; `log_probs` receives the log-probability of each token's label.
int64_t decoder_judge(Decoder *decoder, const int64_t *ids, const int64_t *counts, const int64_t *labels,
                   float *log_probs) {
    return status_of([&] { decoder->judge(decoder->advance(ids, counts), labels, log_probs); });
}

// Takes the fast path of a search step, or returns false and changes nothing. `parents` (R) receives the parent row of
// each row.
bool write_next(const Written *outputs, const float *logits, const float *norms, int64_t vocabulary, int64_t *parents) {
    bool is_fast = false;
    return DONE == status_of([&] {
        std::vector<Candidate> chosen;
        if (!(is_fast = choose_all(*outputs, logits, norms, vocabulary, chosen))) return;
        write_all(*outputs, chosen);
        for (auto &candidate : chosen) *parents++ = candidate.row;
    }) && is_fast;
}

// Takes up to `most` steps of a search by the fast path, and counts them in `steps`. `logits` (rows, V) and `norms` (rows)
// then belong to the following step, which the caller takes, because a hypothesis may end in it, or an output be blank.
// Tokens that it forbids are forbidden in them, perhaps not all. `parents` (R) is for its own use.
int64_t decoder_write_ahead(Decoder *decoder, const Written *outputs, const Rules *rules, int64_t most, float *logits,
                            float *norms, int64_t vocabulary, int64_t *parents, int64_t *steps) {
    int64_t status = DONE;
    for (*steps = 0; !(status = decoder_advance(decoder, outputs->last, logits, norms)) && *steps < most; ++*steps) {
        if (!forbid(*rules, *outputs, logits, vocabulary)) break;
        if (!write_next(outputs, logits, norms, vocabulary, parents)) break;
        if (outputs->width > 1) status = decoder_select(decoder, parents, decoder->count());
        if (status) break;
    }
    return status;
}

// Returns the best `count` tokens of each row (rows, count) with their log-probabilities, likeliest first.
void best(const float *logits, const float *norms, int64_t rows, int64_t width, int64_t count, float *values,
          int64_t *tokens) {
    for (int64_t row = 0; row < rows; ++row) {
        best_of(logits + row * width, width, count, values + row * count, tokens + row * count);
        for (int64_t i = 0; i < count; ++i) values[row * count + i] -= norms[row];
    }
}

}  // extern "C"
