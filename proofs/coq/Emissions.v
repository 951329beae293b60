(** * The laws are laws

    The theorems compare sums of weights. Here: no weight is negative, the weights of a rule's emissions sum to 1, and
    what is emitted is a text of the vocabulary with at most [L] accepted tokens. *)

From Coq Require Import List Arith Bool Reals Lra Lia.
From SpectrVerify Require Import Laws Rules Means Token Block Uniform BlockRace.
Import ListNotations.
Open Scope R_scope.

(** All outcomes have weights >= 0, and the property [S]. *)
Definition outcomes {A} (S : A -> Prop) (d : law R A) : Prop := forall w a, In (w, a) d -> 0 <= w /\ S a.

Section Outcomes.
  Context {A B : Type}.

  Lemma outcomes_ret (S : A -> Prop) a : S a -> outcomes S (ret a).
  Proof. intros H w b [E | []]. inversion E; subst. split; [reals; lra | exact H]. Qed.

  Lemma outcomes_bind (S : A -> Prop) (T : B -> Prop) (d : law R A) (k : A -> law R B) :
    outcomes S d -> (forall a, S a -> outcomes T (k a)) -> outcomes T (bind d k).
  Proof.
    intros Hd Hk w b Hin. unfold bind in Hin. apply in_flat_map in Hin as ([w1 a] & Ha & Hin).
    apply in_map_iff in Hin as ([w2 b'] & E & Hb). inversion E; subst.
    destruct (Hd w1 a Ha) as [Hw1 Hs]. destruct (Hk a Hs w2 b Hb) as [Hw2 Ht].
    split; [now apply Rmult_le_pos | exact Ht].
  Qed.

  Lemma share_nonneg (w total : R) : 0 <= w -> 0 <= total -> 0 <= w / total.
  Proof.
    intros Hw Ht. unfold Rdiv. apply Rmult_le_pos; [exact Hw |].
    destruct (Req_dec total 0) as [-> | H]; [rewrite Rinv_0; lra | left; apply Rinv_0_lt_compat; lra].
  Qed.

  Lemma outcomes_categorical (S : A -> Prop) (l : list A) (w : A -> R) :
    (forall a, In a l -> 0 <= w a /\ S a) -> outcomes S (categorical l w).
  Proof.
    intros H x a Hin. apply in_map_iff in Hin as (b & E & Hb). inversion E; subst.
    destruct (H a Hb) as [Hw Hs]. split; [| exact Hs]. apply share_nonneg; [exact Hw |].
    apply sum_nonneg. intros b Hb'. now apply H.
  Qed.

  (** Means depend on what can come out only. *)
  Lemma mean_ext_outcomes (S : A -> Prop) (d : law R A) f g :
    outcomes S d -> (forall a, S a -> f a = g a) -> mean d f = mean d g.
  Proof.
    intros Hd H. unfold mean. apply sum_ext. intros [w a] Hin. cbn [fst snd]. f_equal. apply H. now apply (Hd w).
  Qed.
End Outcomes.

Lemma outcomes_choose {A} (S : A -> Prop) (ws : list R) (l : list A) :
  (forall w a, In (w, a) (combine ws l) -> 0 <= w /\ S a) -> outcomes S (choose ws l).
Proof.
  intros H. apply (outcomes_bind (fun wa => S (snd wa))).
  - apply outcomes_categorical. intros [w a] Hin. now apply H.
  - intros wa. apply outcomes_ret.
Qed.

Lemma outcomes_independent {A} (S : A -> Prop) (ds : list (law R A)) :
  (forall d, In d ds -> outcomes S d) -> outcomes (fun l => Forall S l /\ length l = length ds) (independent ds).
Proof.
  induction ds as [| d ds IH]; intros H; cbn [independent].
  - apply outcomes_ret. split; [constructor | reflexivity].
  - apply (outcomes_bind S); [apply H; now left |]. intros a Ha.
    apply (outcomes_bind (fun l => Forall S l /\ length l = length ds)).
    + apply IH. intros e He. apply H. now right.
    + intros l [Hl Hlen]. apply outcomes_ret. split; [now constructor | simpl; now rewrite Hlen].
Qed.

(** No weight is negative, the weights sum to 1, and every outcome has the property. *)
Definition is_law {A} (S : A -> Prop) (d : law R A) : Prop := outcomes S d /\ mean d (fun _ => 1) = 1.

Section Emissions.
  Variables (V L : nat) (p q : model R).
  Hypothesis Hp : is_model V p.
  Hypothesis Hq : is_model V q.

  (** At most [L] accepted tokens and one more, all of the vocabulary. *)
  Definition fits (u : emission) : Prop := (length (fst u) <= L)%nat /\ vocabulary_text V (snd u :: fst u).

  Definition is_draft (x : list nat) : Prop := length x = L /\ Forall (fun c => (c < V)%nat) x.

  Lemma outcomes_draft_from n v :
    outcomes (fun x => length x = n /\ Forall (fun c => (c < V)%nat) x) (draft V p n v).
  Proof.
    revert v. induction n as [| n IH]; intros v; cbn [draft]; [now apply outcomes_ret |].
    apply (outcomes_bind (fun c => (c < V)%nat)).
    - apply outcomes_categorical. intros c Hc. split; [apply (next_nonneg V p Hp) | apply in_seq in Hc; lia].
    - intros c Hc. eapply outcomes_bind; [apply IH |]. intros x [Hl Hx]. apply outcomes_ret.
      split; [simpl; now rewrite Hl | now constructor].
  Qed.

  Lemma draft_prefixes v x u : vocabulary_text V v -> Forall (fun c => (c < V)%nat) x -> In u (path v x) ->
    (length u <= length v + length x)%nat /\ vocabulary_text V u.
  Proof.
    revert v. induction x as [| c x IH]; intros v Hv Hx [<- | Hin]; try (split; [lia | exact Hv]); [easy |].
    inversion Hx; subst. destruct (IH (c :: v)) as [Hl Hu]; auto; [now constructor |].
    split; [simpl in *; lia | exact Hu].
  Qed.

  Lemma outcomes_emit w v : (length v <= L)%nat -> vocabulary_text V v -> outcomes fits (emit V L p q w v).
  Proof.
    intros Hl Hv. apply (outcomes_bind (fun c => (c < V)%nat)).
    - apply outcomes_categorical. intros c Hc. split; [| apply in_seq in Hc; lia].
      unfold correction, or_target. destruct (_ =? _); [apply (next_nonneg V q Hq) |].
      destruct (existsb _ _); [apply residual_nonneg | apply (next_nonneg V q Hq)].
    - intros c Hc. apply outcomes_ret. split; [exact Hl | now constructor].
  Qed.

  Lemma ratio_nonneg (x y : R) : 0 <= y -> 0 <= ratio x y.
  Proof.
    intros Hy. destruct (ratio_spec x y) as [[H E] | [H E]]; rewrite E; [apply share_nonneg; lra | lra].
  Qed.

  Lemma capped_bounds (x : R) : 0 <= x -> 0 <= minimum one x <= 1.
  Proof. intros H. destruct (minimum_spec 1 x) as [[? E] | [? E]]; reals; rewrite E; lra. Qed.

  (** A rule that stops at a prefix of the draft, by weights >= 0, and emits a token there. *)
  Lemma outcomes_stop (weights : list R) (w : text -> R) x : is_draft x -> (forall a, In a weights -> 0 <= a) ->
    outcomes fits (v <- choose weights (path [] x);; emit V L p q (w v) v).
  Proof.
    intros [Hl Hx] Hw. apply (outcomes_bind (fun v => (length v <= L)%nat /\ vocabulary_text V v)).
    - apply outcomes_choose. intros a u Hin. split; [eapply Hw, in_combine_l, Hin |].
      rewrite <- Hl. apply (draft_prefixes []); [constructor | exact Hx | eapply in_combine_r, Hin].
    - intros v [Hlv Hv]. now apply outcomes_emit.
  Qed.

  Lemma emitted_outcomes rule : (forall x, is_draft x -> outcomes fits (rule x)) -> outcomes fits (emitted V L p rule).
  Proof. intros H. eapply outcomes_bind; [apply outcomes_draft_from | exact H]. Qed.

  (** What has the target's means has its total. *)
  Lemma total_by_means d : (forall f, mean (text_after V L q d) f = mean (follow V q (S L) []) f) ->
    mean d (fun _ => 1) = 1.
  Proof.
    intros H. transitivity (mean (text_after V L q d) (fun _ => 1)).
    - rewrite mean_text_after. apply mean_ext. intros u. symmetry. apply (follow_total V q Hq).
    - rewrite H. apply (follow_total V q Hq).
  Qed.

  (** ** Token verification *)

  Lemma acceptances_bounds v x a : In a (acceptances p q v x) -> 0 <= a <= 1.
  Proof.
    revert v. induction x as [| c x IH]; intros v; [easy |]. intros [<- | Hin]; [| eapply IH, Hin].
    apply capped_bounds, ratio_nonneg, (next_nonneg V p Hp).
  Qed.

  Lemma stop_nonneg reached accept : 0 <= reached -> (forall a, In a accept -> 0 <= a <= 1) ->
    forall w, In w (stop_at_first_rejection reached accept) -> 0 <= w.
  Proof.
    revert reached. induction accept as [| a accept IH]; intros reached Hr Ha w.
    - intros [<- | []]. exact Hr.
    - pose proof (Ha a (or_introl eq_refl)). intros [<- | Hin].
      + reals. apply Rmult_le_pos; lra.
      + apply (IH (reached * a)); auto; [apply Rmult_le_pos; lra | intros b Hb; apply Ha; now right].
  Qed.

  Lemma token_outcomes x : is_draft x -> outcomes fits (token V L p q x).
  Proof.
    intros Hx. apply outcomes_stop with (w := fun _ => one); [exact Hx |].
    apply stop_nonneg; [reals; lra | apply acceptances_bounds].
  Qed.

  Theorem token_emits_a_law : is_law fits (emitted V L p (token V L p q)).
  Proof.
    split; [apply emitted_outcomes, token_outcomes | apply total_by_means, (token_means V L p q Hp Hq)].
  Qed.

  (** ** Block verification *)

  Lemma block_success_bounds v x h : In h (block_success V p q v x) -> 0 <= h <= 1.
  Proof.
    revert v. induction x as [| c x IH]; intros v; [intros [<- | []]; now apply (weight_bounds V) |].
    intros [<- | Hin]; [| eapply IH, Hin]. unfold success.
    pose proof (weight_bounds V p q Hp v) as Hw. pose proof (left_over_nonneg V p q v) as HA.
    destruct (leb one (running_weight p q v)) eqn:E; [reals; lra |]. apply leb_false in E. reals.
    set (A := left_over V p q v) in *. set (W := running_weight p q v) in *.
    assert (Hd : 0 < A + (1 - W)) by lra. split.
    - apply share_nonneg; lra.
    - apply (Rmult_le_reg_r (A + (1 - W))); [exact Hd |]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  Qed.

  Lemma product_nonneg (l : list R) : (forall a, In a l -> 0 <= a) -> 0 <= product l.
  Proof.
    induction l as [| a l IH]; intros H; [unfold product; simpl; reals; lra |]. rewrite product_cons.
    apply Rmult_le_pos; [apply H; now left | apply IH; intros b Hb; apply H; now right].
  Qed.

  Lemma stopping_law_nonneg coins : (forall h, In h coins -> 0 <= h <= 1) ->
    forall w, In w (stopping_law coins) -> 0 <= w.
  Proof.
    induction coins as [| h coins IH]; intros H w; [easy |]. intros [<- | Hin].
    - reals. apply Rmult_le_pos; [apply H; now left |]. apply product_nonneg.
      intros a Ha. apply in_map_iff in Ha as (b & <- & Hb). pose proof (H b (or_intror Hb)). reals. lra.
    - apply IH; [intros b Hb; apply H; now right | exact Hin].
  Qed.

  Lemma block_outcomes x : is_draft x -> outcomes fits (block V L p q x).
  Proof.
    intros Hx. apply outcomes_stop with (w := running_weight p q); [exact Hx |].
    apply stopping_law_nonneg, block_success_bounds.
  Qed.

  Theorem block_emits_a_law : is_law fits (emitted V L p (block V L p q)).
  Proof.
    split; [apply emitted_outcomes, block_outcomes | apply total_by_means, (block_means V L p q Hp Hq)].
  Qed.

  (** ** The block race *)

  Lemma integral_nonneg (f : continuous_function) l h : l <= h -> (forall s, 0 <= f s) -> 0 <= integral f l h.
  Proof.
    intros Hlh Hf. rewrite <- (Rmult_0_l (h - l)), <- (integral_constant 0 l h).
    apply RiemannInt_P19; [exact Hlh |]. intros s _. apply Hf.
  Qed.

  Lemma smallest_nonneg before intervals : Forall (fun i => fst i <= snd i) intervals ->
    forall w, In w (smallest_among before intervals) -> 0 <= w.
  Proof.
    revert before. induction intervals as [| i after IH]; intros before H w; [easy |].
    inversion H; subst. intros [<- | Hin]; [| eapply IH; eassumption].
    apply share_nonneg; [| lra]. apply integral_nonneg; [assumption |]. intros s. rewrite all_survive_value.
    apply product_nonneg. intros a Ha. apply in_map_iff in Ha as (j & <- & _). apply Rmax_l.
  Qed.

  Theorem block_race_emits_a_law K : (0 < K)%nat ->
    is_law fits (emitted_from V L p K (block_race V L p q smallest_uniform)).
  Proof.
    intros HK. split.
    - eapply outcomes_bind; [apply (outcomes_independent is_draft) |].
      + intros d Hd. apply repeat_spec in Hd as ->. apply outcomes_draft_from.
      + intros xs [Hxs _]. eapply outcomes_bind; [apply (outcomes_independent fits) |].
        * intros d Hd. apply in_map_iff in Hd as (x & <- & Hx). apply block_outcomes.
          rewrite Forall_forall in Hxs. now apply Hxs.
        * intros us [Hus _] w u Hin. split.
          -- apply in_combine_l in Hin. revert Hin. apply smallest_nonneg.
             apply Forall_forall. intros i Hi. apply in_map_iff in Hi as (u' & <- & _).
             now apply (low_below_high V L p q).
          -- apply in_combine_r in Hin. rewrite Forall_forall in Hus. now apply Hus.
    - apply total_by_means, (block_race_means V L p q Hp Hq K HK).
  Qed.
End Emissions.
